export interface Sample {
  /** Time in milliseconds. */
  at: number
  value: number
}

export interface Trend {
  from: number
  to: number
  /** Slope of the least-squares line. */
  per_hour: number
  /** Share of the variance that the line explains, 0 to 1. */
  fit: number
  grows: boolean
}

const HOUR_MS = 3_600_000
/** Minimum number of samples for a trend. */
const MIN_SAMPLES = 8
/** Share of the samples at the start that is ignored, since growth during warm-up is not a leak. */
const WARM_UP = 0.25
/** Conditions for growth: the line explains at least this share of the variance, and rises by at least this share of the mean (and by `least`). */
const MIN_FIT = 0.6
const MIN_RISE = 0.15

/** Returns the trend of a measure without the first quarter of its samples, or `undefined` if there are too few. */
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
