import { randomBytes } from 'node:crypto'
import { hashPass, type PassHash } from '../runtime/pass-hash.js'

const INITIAL_SLOTS = 1 << 10
/** Numbers per slot: two hashes of the pass's name, and its segment + 1. */
const WIDTH = 3
const SEGMENT = 2
const EMPTY = 0
const DELETED = 0xffff_ffff

/**
 * Maps each of very many passes to the last segment that names it. Stores 64 bits of hashes per name and a number, in one array that is at most half
 * full. A `Map` of names would take about 150 bytes per pass, and with slow handlers nearly every pass of two id windows is in it.
 */
export class LastSegmentTable {
  #table = new Uint32Array(WIDTH * INITIAL_SLOTS)
  /** Number of slots that are not empty, including deleted ones. */
  #taken = 0
  #count = 0
  readonly #seed = randomBytes(4).readUInt32LE()
  readonly #hashed: PassHash = { hash: 0, check: 0 }

  get size(): number {
    return this.#count
  }

  /** Returns the last segment that names a pass (a `keyText`). */
  get(text: string): number | undefined {
    const at = this.#find(text)
    return at === undefined ? undefined : this.#read(at + SEGMENT) - 1
  }

  set(text: string, k: number): void {
    const known = this.#find(text)
    if (known !== undefined) {
      this.#table[known + SEGMENT] = k + 1
      return
    }
    if (2 * (this.#taken + 1) * WIDTH > this.#table.length) this.#renew()
    this.#taken++
    this.#count++
    this.#insert(this.#hashed.hash, this.#hashed.check, k + 1)
  }

  delete(text: string): void {
    const at = this.#find(text)
    if (at === undefined) return
    this.#table[at + SEGMENT] = DELETED
    this.#count--
  }

  #read(at: number): number {
    return this.#table[at] ?? EMPTY
  }

  /** Returns the position of a pass's slot. Its hashes are in `hashed` afterwards. */
  #find(text: string): number | undefined {
    hashPass({ originator: '', subagent: '', id: text }, this.#seed, this.#hashed)
    const { hash, check } = this.#hashed
    for (let at = this.#begin(hash); ; at = this.#after(at)) {
      const segment = this.#read(at + SEGMENT)
      if (segment === EMPTY) return undefined
      if (segment !== DELETED && this.#read(at) === hash && this.#read(at + 1) === check) return at
    }
  }

  #insert(hash: number, check: number, segment: number): void {
    let at = this.#begin(hash)
    while (this.#read(at + SEGMENT) !== EMPTY) at = this.#after(at)
    this.#table[at] = hash
    this.#table[at + 1] = check
    this.#table[at + SEGMENT] = segment
  }

  #begin(hash: number): number {
    return WIDTH * (hash % (this.#table.length / WIDTH))
  }

  #after(at: number): number {
    return at + WIDTH === this.#table.length ? 0 : at + WIDTH
  }

  /** Rebuilds the table without deleted slots, sized for the remaining passes. */
  #renew(): void {
    const old = this.#table
    let slots = INITIAL_SLOTS
    while (slots < 4 * this.#count) slots *= 2
    this.#table = new Uint32Array(WIDTH * slots)
    this.#taken = this.#count
    for (let at = 0; at < old.length; at += WIDTH) {
      const segment = old[at + SEGMENT] ?? EMPTY
      if (segment !== EMPTY && segment !== DELETED) this.#insert(old[at] ?? 0, old[at + 1] ?? 0, segment)
    }
  }
}
