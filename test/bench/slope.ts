export interface Sample {
  x: number
  y: number
}

/** By least squares; 0 with fewer than two. */
export function slopeOf(samples: readonly Sample[]): number {
  const mean = (of: (one: Sample) => number) => samples.reduce((sum, one) => sum + of(one), 0) / Math.max(1, samples.length)
  const [x, y] = [mean((one) => one.x), mean((one) => one.y)]
  const along = samples.reduce((sum, one) => sum + (one.x - x) ** 2, 0)
  return along === 0 ? 0 : samples.reduce((sum, one) => sum + (one.x - x) * (one.y - y), 0) / along
}
