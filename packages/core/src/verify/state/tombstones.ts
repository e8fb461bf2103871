import { type CustodyBody, custodyBody, SYSTEM } from '@passover/schemas'
import { CustodyLog, type CustodyMessage, entriesOf } from '../../audit/custody-log.js'
import type { RecordedMessage, VerifyFinding } from './recorded-message.js'

/** Holds each erased entry against the tombstones: an erasure that nobody recorded is a hole in the record (P4). */
export class Tombstones {
  private readonly custody = new CustodyLog()
  /** Digests (a character a byte) of erased entries, until their tombstone comes by: it always stands after them. */
  private readonly unnamed = new Map<number, string>()

  /** `from`: the first sequence that is read. */
  constructor(private readonly from = 1) {}

  erased(sequence: number, digest: Uint8Array): void {
    this.unnamed.set(sequence, textOf(digest))
  }

  take(recorded: RecordedMessage): void {
    const { sequence, time } = recorded.fact
    const said = { sequence, time, sender: recorded.sender ?? '', body: recorded.body() }
    const counted = this.custody.take(said) ?? this.ofBefore(said)
    if (counted?.kind !== 'erased') return
    for (const entry of entriesOf(counted.passes)) {
      if (this.unnamed.get(entry.sequence) === textOf(entry.digest)) this.unnamed.delete(entry.sequence)
    }
  }

  /** Of an erasure that was asked for before what is read. */
  private ofBefore({ sender, body }: CustodyMessage): CustodyBody | undefined {
    const parsed = sender === SYSTEM && this.from > 1 ? custodyBody.safeParse(body) : undefined
    return parsed?.success && parsed.data.kind === 'erased' && parsed.data.erase < this.from ? parsed.data : undefined
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
