import type { PassHash } from '../../runtime/pass-hash.js'

const INITIAL_SIZE = 1 << 14
const EMPTY = 0
const DELETED = -1

/**
 * Finds the place of an entry by its hash. Uses open addressing in one array of places, at most half full. Each place is given out only once, so
 * place numbers exceed 32 bits in a process that runs long.
 */
export class OpenAddressingTable {
  readonly #hashAt: (place: number) => PassHash
  #table = new Float64Array(INITIAL_SIZE)
  #taken = 0

  constructor(hashAt: (place: number) => PassHash) {
    this.#hashAt = hashAt
  }

  find(hashed: PassHash): number | undefined {
    const slot = this.#slotOf(hashed)
    return slot === undefined ? undefined : (this.#table[slot] ?? 0) - 1
  }

  /** Adds a place that is not in the table yet. */
  add(hashed: PassHash, place: number): void {
    if (2 * ++this.#taken > this.#table.length) this.#grow()
    this.#insert(hashed.hash, place)
  }

  remove(place: number): void {
    this.#replace(place, DELETED)
  }

  move(place: number, to: number): void {
    this.#replace(place, to + 1)
  }

  #replace(place: number, value: number): void {
    const { hash } = this.#hashAt(place)
    const mask = this.#table.length - 1
    for (let slot = hash & mask; this.#table[slot] !== EMPTY; slot = (slot + 1) & mask) {
      if (this.#table[slot] !== place + 1) continue
      this.#table[slot] = value
      return
    }
  }

  #slotOf({ hash, check }: PassHash): number | undefined {
    const table = this.#table
    const mask = table.length - 1
    for (let slot = hash & mask; table[slot] !== EMPTY; slot = (slot + 1) & mask) {
      const place = (table[slot] ?? 0) - 1
      if (place < 0) continue
      const known = this.#hashAt(place)
      if (known.hash === hash && known.check === check) return slot
    }
    return undefined
  }

  #insert(hash: number, place: number): void {
    const mask = this.#table.length - 1
    let slot = hash & mask
    while (this.#table[slot] !== EMPTY) slot = (slot + 1) & mask
    this.#table[slot] = place + 1
  }

  /** Rebuilds the table with more room, without deleted places. */
  #grow(): void {
    const places = this.#table.filter((value) => value > 0)
    let size = INITIAL_SIZE
    while (size < 4 * (places.length + 1)) size *= 2
    this.#table = new Float64Array(size)
    this.#taken = places.length + 1
    for (const value of places) this.#insert(this.#hashAt(value - 1).hash, value - 1)
  }
}
