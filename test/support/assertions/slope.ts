export interface Sample {
  x: number
  y: number
}

export interface Growth {
  /** Of y, for each of x. */
  slope: number
  mean: number
  /** What the slope comes to from the first sample to the last. */
  grown: number
  flat: boolean
}

const SHARE = 0.1

/** By least squares; 0 with fewer than two. */
export function slopeOf(samples: readonly Sample[]): number {
  const [x, y] = [meanOf(samples, (one) => one.x), meanOf(samples, (one) => one.y)]
  const along = samples.reduce((sum, one) => sum + (one.x - x) ** 2, 0)
  return along === 0 ? 0 : samples.reduce((sum, one) => sum + (one.x - x) * (one.y - y), 0) / along
}

/** Flat is what grew over all samples by no more than a tenth of itself, or by `noise`: what comes and goes between two looks. */
export function growthOf(samples: readonly Sample[], noise: number): Growth {
  const slope = slopeOf(samples)
  const mean = meanOf(samples, ({ y }) => y)
  const grown = slope * ((samples.at(-1)?.x ?? 0) - (samples[0]?.x ?? 0))
  return { slope, mean, grown, flat: grown <= Math.max(noise, SHARE * mean) }
}

function meanOf(samples: readonly Sample[], of: (one: Sample) => number): number {
  return samples.reduce((sum, one) => sum + of(one), 0) / Math.max(1, samples.length)
}
