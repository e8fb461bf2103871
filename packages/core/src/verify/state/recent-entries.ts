/** The newest entries by name. The number is limited; the oldest are forgotten. */
export class RecentEntries<T> {
  readonly #size: number
  #now = new Map<string, T>()
  #before = new Map<string, T>()

  /** @param size - the minimum number of entries to keep. At most twice as many are kept. */
  constructor(size: number) {
    this.#size = size
  }

  set(name: string, value: T): void {
    if (this.#now.size >= this.#size) {
      this.#before = this.#now
      this.#now = new Map()
    }
    this.#now.set(name, value)
  }

  get(name: string): T | undefined {
    return this.#now.get(name) ?? this.#before.get(name)
  }

  delete(name: string): void {
    this.#now.delete(name)
    this.#before.delete(name)
  }
}

const SLOT_BITS = 20
const SLOTS = 2 ** SLOT_BITS
const MASK = SLOTS - 1

/** Set of names, stored as hashes of 52 bits: 8 MB for half a million. The oldest are forgotten. One name in 10^9 is mistaken for another. */
export class SeenNames {
  #now = new Float64Array(SLOTS)
  #before = new Float64Array(0)
  #used = 0

  add(name: string): void {
    if (this.#used >= SLOTS / 2) {
      this.#before = this.#now
      this.#now = new Float64Array(SLOTS)
      this.#used = 0
    }
    const hash = hashOf(name)
    let at = hash & MASK
    while (this.#now[at] !== 0) {
      if (this.#now[at] === hash) return
      at = (at + 1) & MASK
    }
    this.#now[at] = hash
    this.#used++
  }

  has(name: string): boolean {
    const hash = hashOf(name)
    return holds(this.#now, hash) || (this.#before.length > 0 && holds(this.#before, hash))
  }
}

function holds(table: Float64Array, hash: number): boolean {
  for (let at = hash & MASK; table[at] !== 0; at = (at + 1) & MASK) if (table[at] === hash) return true
  return false
}

/** Returns a hash that is never 0. Combines two hashes of 26 bits (FNV-1a with two offsets). */
function hashOf(name: string): number {
  let one = 0x811c9dc5
  let other = 0x050c5d1f
  for (let at = 0; at < name.length; at++) {
    const code = name.charCodeAt(at)
    one = Math.imul(one ^ code, 0x01000193)
    other = Math.imul(other ^ code, 0x01000193) + 0x9e3779b9
  }
  return (one >>> 6) * 0x4000000 + (other >>> 6) + 1
}
