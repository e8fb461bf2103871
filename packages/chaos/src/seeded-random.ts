/** Repeatable choices: the same seed makes the same ones. */
export interface SeededRandom {
  /** From 0 up to, but not, 1. */
  next(): number
  /** A whole number from `low` to `high`, both possible. */
  between(low: number, high: number): number
  pick<T>(from: readonly T[]): T
  /** True in so many of a hundred cases. */
  chance(percent: number): boolean
}

/** mulberry32: small, and good enough to choose whom to kill. */
export function seededRandom(seed: number): SeededRandom {
  let state = seed >>> 0
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
  const between = (low: number, high: number) => low + Math.floor(next() * (high - low + 1))
  return {
    next,
    between,
    pick<T>(from: readonly T[]): T {
      if (from.length === 0) throw new Error('nothing to pick from')
      return from[between(0, from.length - 1)] as T
    },
    chance: (percent) => next() * 100 < percent,
  }
}
