/** Number of buckets of 1 ms each. Above that, each power of two has half as many, so a bucket spans at most 1.6 % of its value. */
const LINEAR_BUCKETS = 128
const HALF = LINEAR_BUCKETS / 2
const BUCKETS = LINEAR_BUCKETS + HALF * 26

/** Counts durations and returns their quantiles. */
export class Histogram {
  readonly #counts = new Uint32Array(BUCKETS)
  count = 0

  add(ms: number): void {
    this.count++
    const bucket = bucketOf(ms)
    this.#counts[bucket] = (this.#counts[bucket] ?? 0) + 1
  }

  /** Returns the quantile in ms, or `undefined` if nothing was counted. */
  quantile(share: number): number | undefined {
    if (this.count === 0) return undefined
    let left = Math.ceil(share * this.count)
    for (let bucket = 0; bucket < BUCKETS; bucket++) {
      left -= this.#counts[bucket] ?? 0
      if (left <= 0) return middleOf(bucket)
    }
    return middleOf(BUCKETS - 1)
  }

  told(): { count: number; p50?: number; p99?: number } {
    const p50 = this.quantile(0.5)
    const p99 = this.quantile(0.99)
    return { count: this.count, ...(p50 === undefined ? {} : { p50 }), ...(p99 === undefined ? {} : { p99 }) }
  }
}

function bucketOf(ms: number): number {
  const whole = Math.max(0, Math.round(ms))
  if (whole < LINEAR_BUCKETS) return whole
  const octave = Math.floor(Math.log2(whole)) - 6
  const within = Math.floor(whole / 2 ** octave) - HALF
  return Math.min(BUCKETS - 1, LINEAR_BUCKETS + (octave - 1) * HALF + within)
}

function middleOf(bucket: number): number {
  if (bucket < LINEAR_BUCKETS) return bucket
  const octave = Math.floor((bucket - LINEAR_BUCKETS) / HALF) + 1
  const least = (HALF + ((bucket - LINEAR_BUCKETS) % HALF)) * 2 ** octave
  return Math.round(least + (2 ** octave - 1) / 2)
}
