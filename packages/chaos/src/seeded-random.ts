/** Repeatable random choices: the same seed gives the same sequence. */
export interface SeededRandom {
  /** Returns a number from 0 (inclusive) to 1 (exclusive). */
  next(): number
  /** Returns an integer from `low` to `high`, both inclusive. */
  between(low: number, high: number): number
  pick<T>(from: readonly T[]): T
  /** Returns true with a probability of `percent` out of 100. */
  chance(percent: number): boolean
}

/** Creates a generator by mulberry32, which is small and good enough to select faults. */
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
