import type { RecordedMessage, VerifyFinding } from './recorded-message.js'
import { Tombstones } from './tombstones.js'

const BITS = 4096

/** An entry of which only the digest is kept. */
export interface ErasedDigest {
  sequence: number
  digest: Uint8Array
}

/** Set of sequences that cannot be read: erased, removed, or before the verified range. One bit each. */
export class Erasures {
  readonly #from: number
  readonly #blocks = new Map<number, Uint8Array>()
  #newestNameless = 0
  readonly #tombstones: Tombstones

  constructor(from: number) {
    this.#from = from
    this.#tombstones = new Tombstones(from)
  }

  /** Adds an entry of which only the digest is kept. A tombstone must account for it. */
  erased({ sequence, digest }: ErasedDigest, whose: 'named' | 'nameless'): void {
    this.#tombstones.erased(sequence, digest)
    this.add(sequence, whose)
  }

  /** Adds entries that are no longer kept. */
  removed({ first, last }: { first: number; last: number }): void {
    for (let sequence = first; sequence <= last; sequence++) this.add(sequence, 'nameless')
  }

  /** Reads a custody event. */
  take(recorded: RecordedMessage): void {
    this.#tombstones.take(recorded)
  }

  missing(): Iterable<VerifyFinding> {
    return this.#tombstones.missing()
  }

  /** @param whose - `named` if the pass of the entry is known. */
  add(sequence: number, whose: 'named' | 'nameless'): void {
    if (whose === 'nameless') this.#newestNameless = Math.max(this.#newestNameless, sequence)
    const block = Math.floor(sequence / BITS)
    const bits = this.#blocks.get(block) ?? new Uint8Array(BITS / 8)
    const at = sequence % BITS
    bits[at >> 3] = (bits[at >> 3] ?? 0) | (1 << (at & 7))
    this.#blocks.set(block, bits)
  }

  /** Returns true if an entry after `sequence` was erased that may have belonged to any pass. */
  namelessSince(sequence: number): boolean {
    return this.#newestNameless > sequence
  }

  /** Returns true if a sequence existed but cannot be read here. */
  unseen(sequence: number): boolean {
    if (sequence < this.#from) return true
    const at = sequence % BITS
    return ((this.#blocks.get(Math.floor(sequence / BITS))?.[at >> 3] ?? 0) & (1 << (at & 7))) !== 0
  }
}
