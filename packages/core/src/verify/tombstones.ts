import { Custody, entriesOf } from '../custody.js'
import type { Recorded, VerifyFinding } from './recorded.js'

/** Holds each erased entry against the tombstones: an erasure that nobody recorded is a hole in the record (P4). */
export class Tombstones {
  private readonly custody = new Custody()
  /** Digests (a character a byte) of erased entries, until their tombstone comes by: it always stands after them. */
  private readonly unnamed = new Map<number, string>()

  erased(sequence: number, digest: Uint8Array): void {
    this.unnamed.set(sequence, textOf(digest))
  }

  take(recorded: Recorded): void {
    const { sequence, time } = recorded.fact
    const counted = this.custody.take({ sequence, time, sender: recorded.sender ?? '', body: recorded.body() })
    if (counted?.kind !== 'erased') return
    for (const entry of entriesOf(counted.passes)) {
      if (this.unnamed.get(entry.sequence) === textOf(entry.digest)) this.unnamed.delete(entry.sequence)
    }
  }

  *missing(): Generator<VerifyFinding> {
    for (const sequence of this.unnamed.keys()) {
      yield { severity: 'fault', rule: 'erasure', sequence, what: 'was erased, and no tombstone says so' }
    }
  }
}

function textOf(digest: Uint8Array): string {
  return Buffer.from(digest.buffer, digest.byteOffset, digest.byteLength).toString('latin1')
}
