import { type ErasedEntry, eventOf, type Manifest, segmentOf } from '@passover/archive'
import type { Bus } from '@passover/bus'
import { CustodyLog, entriesOf } from '@passover/core'
import { StoredRecord } from '../stored-messages/stored-record.js'

/**
 * Entries that tombstones replace, from a sequence on. An erasure may be in progress: it stores its tombstones before anything is deleted, so reading
 * them again finds those of a missing entry.
 */
export class ErasedDuringRead {
  readonly #bus: Bus
  readonly #from: number
  readonly #custody = new CustodyLog()
  readonly #entries = new Map<number, ErasedEntry>()

  constructor(bus: Bus, from: number) {
    this.#bus = bus
    this.#from = from
  }

  /** Returns the entries of a range, in order. */
  async within(from: number, up_to: number): Promise<ErasedEntry[]> {
    const found = this.#known(from, up_to)
    if (found.length === up_to - from + 1 || from > up_to) return found
    await this.#look()
    return this.#known(from, up_to)
  }

  #known(from: number, up_to: number): ErasedEntry[] {
    const found: ErasedEntry[] = []
    for (let sequence = from; sequence <= up_to; sequence++) {
      const entry = this.#entries.get(sequence)
      if (entry) found.push(entry)
    }
    return found
  }

  /** Reads new custody events. Concurrent calls are safe. */
  async #look(): Promise<void> {
    const custody = this.#custody
    const bus = this.#bus
    const filter = bus.subjects.all('custody')
    const newest = await bus.journal.newest(filter)
    if (!newest || newest.sequence <= custody.position) return
    await using reader = await bus.follow({ filters: [filter], from: custody.position + 1 }, (stored) => {
      const { sequence, time } = stored
      if (sequence <= custody.position) return
      const recorded = new StoredRecord(eventOf(stored), bus.subjects)
      const counted = custody.take({ sequence, time, sender: recorded.sender ?? '', body: recorded.body() })
      if (counted?.kind !== 'erased') return
      for (const entry of entriesOf(counted.passes)) if (entry.sequence >= this.#from) this.#entries.set(entry.sequence, entry)
    })
    await Promise.race([reader.caughtUp, reader.closed])
  }
}

/** Returns the number of entries that tombstones replace, and whether an erasure with entries is in progress. */
export async function readErasures(bus: Bus): Promise<{ entries: number; going: boolean }> {
  const custody = new CustodyLog()
  await using reader = await bus.follow({ filters: [bus.subjects.all('custody')] }, (stored) => {
    const { sequence, time } = stored
    const recorded = new StoredRecord(eventOf(stored), bus.subjects)
    if (sequence > custody.position) custody.take({ sequence, time, sender: recorded.sender ?? '', body: recorded.body() })
  })
  await Promise.race([reader.caughtUp, reader.closed])
  const { erasures } = custody
  return {
    entries: erasures.reduce((sum, { entries }) => sum + entries, 0),
    going: erasures.some(({ state, entries }) => state === 'pending' && entries > 0),
  }
}

/** Returns a function that checks whether an entry was deleted by now: it was erased, or its segment was removed. */
export function deletedSince(bus: Bus, manifest: Pick<Manifest, 'standing'>): (sequence: number) => Promise<boolean> {
  const erased = new ErasedDuringRead(bus, 1)
  return async (sequence) => {
    const standing = await manifest.standing(segmentOf(sequence))
    return standing?.entry.removed !== undefined || (await erased.within(sequence, sequence)).length > 0
  }
}
