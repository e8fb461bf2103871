import { type ArchivedEvent, type ArchiveSource, type ErasedEntry, type Manifest, segmentOf, segmentRange } from '@passover/archive'
import type { Bus } from '@passover/bus'
import type { ReadRange } from '../stored-messages/read-range.js'
import { readCurrentSegment } from '../stored-messages/walk-archive.js'
import { ErasedDuringRead } from './erased-during-read.js'
import type { Verification } from './verify-archive.js'

/** An entry that was in the stream when reading began, and left it before it was read. */
export type DeletedEntry = { kind: 'erased'; entry: ErasedEntry } | { kind: 'event'; event: ArchivedEvent }

interface DeletedDuringReadDeps {
  bus: Bus
  manifest: Pick<Manifest, 'entry'>
  source: ArchiveSource
  verification: Pick<Verification, 'fault' | 'verifier'>
}

/**
 * Finds entries that leave the stream after the end of the archive while it is read: an erasure leaves tombstones, and a segment sealed in the
 * meantime is in the archive before any of it is deleted. Skipping them would miss the end of a pass whose beginning was read.
 */
export class DeletedDuringRead {
  readonly #deps: DeletedDuringReadDeps
  readonly #tombstones: ErasedDuringRead
  /** Last sealed segment that was read. */
  #read: { k: number; events: ArchivedEvent[]; is: 'kept' | 'removed' } | undefined

  constructor(deps: DeletedDuringReadDeps, from: number) {
    this.#deps = deps
    this.#tombstones = new ErasedDuringRead(deps.bus, from)
  }

  /** Returns the entries of a range, in order. */
  async within({ from, up_to }: ReadRange): Promise<DeletedEntry[]> {
    if (from > up_to) return []
    const found = new Map<number, DeletedEntry>()
    for (const entry of await this.#tombstones.within(from, up_to)) found.set(entry.sequence, { kind: 'erased', entry })
    for (let k = segmentOf(from); k <= segmentOf(up_to) && found.size < up_to - from + 1; k++) {
      for (const event of await this.#sealed(k, { from, up_to })) {
        const { sequence } = event
        if (sequence >= from && sequence <= up_to && !found.has(sequence)) found.set(sequence, { kind: 'event', event })
      }
    }
    return [...found].sort(([one], [other]) => one - other).map(([, left]) => left)
  }

  /** Returns the events of a segment that was sealed in the meantime. */
  async #sealed(k: number, { from, up_to }: ReadRange): Promise<readonly ArchivedEvent[]> {
    if (this.#read?.k !== k) {
      const listed = await this.#deps.manifest.entry(k)
      if (!listed) return []
      const { read } = await readCurrentSegment(this.#deps.source, listed)
      for (const fault of read?.faults ?? []) this.#deps.verification.fault(fault)
      const events = (read?.frames ?? []).flatMap((frame) => (frame.kind === 'event' ? [frame.event] : []))
      this.#read = { k, events, is: read ? 'kept' : 'removed' }
    }
    const { first, last } = segmentRange(k)
    // Retention is so short that the segment has already been removed from the archive as well.
    if (this.#read.is === 'removed') this.#deps.verification.verifier.removed({ first: Math.max(from, first), last: Math.min(up_to, last) })
    return this.#read.events
  }
}
