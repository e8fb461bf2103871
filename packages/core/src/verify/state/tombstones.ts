import { type CustodyBody, custodyBody, SYSTEM } from '@passover/schemas'
import { CustodyLog, type CustodyMessage, entriesOf } from '../../audit/custody-log.js'
import type { RecordedMessage, VerifyFinding } from './recorded-message.js'

/** Checks each erased entry against the tombstones: an erasure that is not recorded is a gap in the stored data (P4). */
export class Tombstones {
  readonly #from: number
  readonly #custody = new CustodyLog()
  /** Digests (one character per byte) of erased entries, until their tombstone is read. A tombstone always comes after its entries. */
  readonly #unnamed = new Map<number, string>()

  /** @param from - the first sequence of the verified range. */
  constructor(from = 1) {
    this.#from = from
  }

  erased(sequence: number, digest: Uint8Array): void {
    this.#unnamed.set(sequence, textOf(digest))
  }

  take(recorded: RecordedMessage): void {
    const { sequence, time } = recorded.fact
    const said = { sequence, time, sender: recorded.sender ?? '', body: recorded.body() }
    const counted = this.#custody.take(said) ?? this.#ofBefore(said)
    if (counted?.kind !== 'erased') return
    for (const entry of entriesOf(counted.passes)) {
      if (this.#unnamed.get(entry.sequence) === textOf(entry.digest)) this.#unnamed.delete(entry.sequence)
    }
  }

  /** Returns the tombstone of an erasure that was requested before the verified range. */
  #ofBefore({ sender, body }: CustodyMessage): CustodyBody | undefined {
    const parsed = sender === SYSTEM && this.#from > 1 ? custodyBody.safeParse(body) : undefined
    return parsed?.success && parsed.data.kind === 'erased' && parsed.data.erase < this.#from ? parsed.data : undefined
  }

  *missing(): Generator<VerifyFinding> {
    for (const sequence of this.#unnamed.keys()) {
      yield { severity: 'fault', rule: 'erasure', sequence, what: 'was erased, but no tombstone records it' }
    }
  }
}

function textOf(digest: Uint8Array): string {
  return Buffer.from(digest.buffer, digest.byteOffset, digest.byteLength).toString('latin1')
}
