export interface Sample {
  /** ms. */
  at: number
  value: number
}

export interface Trend {
  from: number
  to: number
  /** By least squares. */
  per_hour: number
  /** How much of what varies the line explains, 0 to 1. */
  fit: number
  grows: boolean
}

const HOUR_MS = 3_600_000
/** Fewer say nothing. */
const MIN_SAMPLES = 8
/** What warms up at its start is no leak. */
const WARM_UP = 0.25
/** It grows if the line explains so much, and rises by this share of its mean (and by `least`) while it was watched. */
const MIN_FIT = 0.6
const MIN_RISE = 0.15

/** How a measure goes over time, its first quarter left out; undefined with too few samples. */
export function linearTrend(samples: readonly Sample[], least: number): Trend | undefined {
  const kept = samples.slice(Math.floor(samples.length * WARM_UP))
  const [first] = kept
  if (!first || kept.length < MIN_SAMPLES) return undefined
  const mean = (of: (one: Sample) => number) => kept.reduce((sum, one) => sum + of(one), 0) / kept.length
  const [at, value] = [mean((one) => one.at), mean((one) => one.value)]
  let together = 0
  let times = 0
  let values = 0
  for (const one of kept) {
    together += (one.at - at) * (one.value - value)
    times += (one.at - at) ** 2
    values += (one.value - value) ** 2
  }
  const slope = times === 0 ? 0 : together / times
  const fit = times === 0 || values === 0 ? 0 : together ** 2 / (times * values)
  const last = kept.at(-1) ?? first
  const rise = slope * (last.at - first.at)
  return {
    from: first.value,
    to: last.value,
    per_hour: slope * HOUR_MS,
    fit,
    grows: fit >= MIN_FIT && rise >= least && rise >= value * MIN_RISE,
  }
}
