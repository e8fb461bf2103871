import type { RecordedMessage, VerifyFinding } from './recorded-message.js'
import { Tombstones } from './tombstones.js'

const BITS = 4096

/** An entry of which only the digest is kept. */
export interface ErasedDigest {
  sequence: number
  digest: Uint8Array
}

/** Which sequences cannot be looked at: erased ones, removed ones, and those before what is read. A bit each. */
export class Erasures {
  private readonly blocks = new Map<number, Uint8Array>()
  private newestNameless = 0
  private readonly tombstones: Tombstones

  constructor(private readonly from: number) {
    this.tombstones = new Tombstones(from)
  }

  /** An entry of which only the digest is kept: a tombstone must say so. */
  erased({ sequence, digest }: ErasedDigest, whose: 'named' | 'nameless'): void {
    this.tombstones.erased(sequence, digest)
    this.add(sequence, whose)
  }

  /** Entries that are kept no longer. */
  removed({ first, last }: { first: number; last: number }): void {
    for (let sequence = first; sequence <= last; sequence++) this.add(sequence, 'nameless')
  }

  /** What was said about custody. */
  take(recorded: RecordedMessage): void {
    this.tombstones.take(recorded)
  }

  missing(): Iterable<VerifyFinding> {
    return this.tombstones.missing()
  }

  /** `whose`: whether it is known which pass it belonged to. */
  add(sequence: number, whose: 'named' | 'nameless'): void {
    if (whose === 'nameless') this.newestNameless = Math.max(this.newestNameless, sequence)
    const block = Math.floor(sequence / BITS)
    const bits = this.blocks.get(block) ?? new Uint8Array(BITS / 8)
    const at = sequence % BITS
    bits[at >> 3] = (bits[at >> 3] ?? 0) | (1 << (at & 7))
    this.blocks.set(block, bits)
  }

  /** Whether something behind `sequence` was erased that may have belonged to any pass. */
  namelessSince(sequence: number): boolean {
    return this.newestNameless > sequence
  }

  /** Whether it stood there, and is not to be seen here. */
  unseen(sequence: number): boolean {
    if (sequence < this.from) return true
    const at = sequence % BITS
    return ((this.blocks.get(Math.floor(sequence / BITS))?.[at >> 3] ?? 0) & (1 << (at & 7))) !== 0
  }
}
