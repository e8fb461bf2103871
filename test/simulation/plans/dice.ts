/** Chance from a seed (sfc32): the same seed, the same throws. */
export class Dice {
  #a: number
  #b: number
  #c: number
  #d = 1

  constructor(seed: number, name = '') {
    this.#a = seed >>> 0
    this.#b = hash(name)
    this.#c = Math.imul(seed ^ 0x9e3779b9, 0x85ebca6b) >>> 0
    for (let n = 0; n < 15; n += 1) this.next()
  }

  /** From 0 to below 1. */
  next(): number {
    const t = (((this.#a + this.#b) | 0) + this.#d) | 0
    this.#d = (this.#d + 1) | 0
    this.#a = this.#b ^ (this.#b >>> 9)
    this.#b = (this.#c + (this.#c << 3)) | 0
    this.#c = (this.#c << 21) | (this.#c >>> 11)
    this.#c = (this.#c + t) | 0
    return (t >>> 0) / 4_294_967_296
  }

  /** From `low` to below `high`. */
  between(low: number, high: number): number {
    return low + this.next() * (high - low)
  }

  /** Whole, from `low` to `high`, both included. */
  whole(low: number, high: number): number {
    return low + Math.floor(this.next() * (high - low + 1))
  }

  hits(probability: number): boolean {
    return probability > 0 && this.next() < probability
  }

  pick<T>(list: readonly T[]): T {
    const one = list[Math.floor(this.next() * list.length)]
    if (one === undefined) throw new RangeError('nothing to pick from')
    return one
  }

  bytes(length: number): Uint8Array {
    return Uint8Array.from({ length }, () => Math.floor(this.next() * 256))
  }
}

function hash(text: string): number {
  let value = 2_166_136_261
  for (let at = 0; at < text.length; at += 1) value = Math.imul(value ^ text.charCodeAt(at), 16_777_619)
  return value >>> 0
}
