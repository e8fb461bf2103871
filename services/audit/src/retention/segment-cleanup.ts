import {
  type Archive,
  decodeIndex,
  encodeFrame,
  type Frame,
  type IndexedPass,
  type ManifestEntry,
  ownedParts,
  readSegment,
  segmentName,
  segmentOf,
  segmentRange,
  storedOf,
} from '@passover/archive'
import type { ObjectStore, StoredMessage, Table } from '@passover/bus'
import { keyText, type PassRecord, sha256 } from '@passover/schemas'
import type { Logger } from 'pino'
import { type OrphanPartsDeps, removeOrphanParts } from '../archive/orphan-parts.js'
import { groupByPass } from '../deletion/segment-contents.js'
import type { LoadDeps } from '../pass/load-pass.js'
import { buildRecord, createdAt } from '../records/build-record.js'
import { recordFilter, recordKey } from '../records/record-store.js'
import type { RowCache } from '../records/row-cache.js'
import type { Indexer } from '../search/index/indexer.js'
import type { CustodyWatcher } from '../watchers/custody-watcher.js'
import type { RemovalAnnouncer } from './removal-announcer.js'

export interface SegmentCleanupDeps extends LoadDeps, OrphanPartsDeps {
  log: Logger
  archive: Archive
  objects: ObjectStore
  table: Table<PassRecord>
  rows: RowCache
  indexing: Pick<Indexer, 'erase' | 'forgetGone'>
  watch: CustodyWatcher
  /** Distinguishes objects of this process from those of replicas. */
  instance: string
}

/** Deletes what belongs to a removed segment, and stores what has to be kept of it. */
export class SegmentCleanup {
  readonly #deps: SegmentCleanupDeps
  readonly #announcer: Pick<RemovalAnnouncer, 'tells'>

  constructor(deps: SegmentCleanupDeps, announcer: Pick<RemovalAnnouncer, 'tells'>) {
    this.#deps = deps
    this.#announcer = announcer
  }

  /** Stores the messages of a segment that the stream keeps, because later entries are judged by them. Returns `undefined` if there are none. */
  async keep(k: number, frames: readonly Frame[], staying: ReadonlySet<number>) {
    const events = frames.flatMap((frame) => (frame.kind === 'event' && staying.has(frame.event.sequence) ? [frame.event] : []))
    if (events.length === 0) return undefined
    const bytes = Buffer.concat(events.map((event) => encodeFrame(event).bytes))
    const object = `${segmentName(k)}.${this.#deps.instance}.kept`
    await this.#deps.objects.put(object, bytes)
    return { object, sha256: sha256(bytes) }
  }

  /** Deletes the records and parts that the objects name, then the objects. If a crash interrupts this, any audit that sees the mark completes it. */
  async clean(entry: ManifestEntry): Promise<void> {
    const { objects, archive, log, bus } = this.#deps
    archive.forget(entry.k)
    if (!(await this.#announcer.tells(entry.k))) {
      // No audit of this stream marked it, so the objects may be needed to find out what was removed.
      log.error({ segment: entry.k }, 'segment is marked as removed but has no removal event; keeping its objects')
      return
    }
    const index = await objects.get(entry.index)
    if (index && (await objects.get(entry.object))) {
      const events = (await readSegment(objects, entry)).flatMap((frame) => (frame.kind === 'event' ? [storedOf(frame.event)] : []))
      await this.#removeRecords(entry, decodeIndex(index), events)
      await removeOrphanParts(this.#deps, new Set(events.flatMap((stored) => ownedParts(stored, bus.subjects.toFact(stored)))))
    }
    await objects.delete(entry.object)
    await objects.delete(entry.index)
    await this.forget([entry])
  }

  /** Forgets segments whose objects are gone. Each audit does this once for each segment, because another audit may have deleted the records. */
  async forget(gone: readonly ManifestEntry[]): Promise<void> {
    const { archive, rows, indexing } = this.#deps
    const segments = new Set(gone.map(({ k }) => k))
    const removed = { has: (sequence: number) => segments.has(segmentOf(sequence)) }
    for (const k of segments) archive.forget(k)
    rows.removeWithin(removed)
    await indexing.forgetGone(removed)
  }

  /** Deletes the records of passes that have no messages after this segment. */
  async #removeRecords(entry: ManifestEntry, passes: readonly IndexedPass[], events: readonly StoredMessage[]): Promise<void> {
    const { table, bus, rules } = this.#deps
    const { first_time = Number.POSITIVE_INFINITY } = await table.extent()
    // The bucket keeps only the newest records, and none as old as this segment.
    if (entry.last_time < first_time) return
    const { contents, add } = groupByPass({ bus, rules, known: () => undefined, isDeferred: () => false, since: Number.NEGATIVE_INFINITY })
    for (const event of events) add(event)
    const keys = new Set<string>()
    const known = new Set<string>()
    for (const { memory, whole } of contents.passes.values()) {
      // Only the request of a refused pass names its session, which is part of the key, and its body is not kept here.
      if (!whole || !(memory.step('work') ?? memory.step('held'))) continue
      const { record } = buildRecord(memory, rules)
      keys.add(recordKey(memory.key, createdAt(record), record.session_id))
      known.add(keyText(memory.key))
    }
    for (const { key, begins } of passes) {
      if (!begins || !known.has(keyText(key))) for await (const found of table.entries(recordFilter(key))) keys.add(found.key)
    }
    // An older pass with the same id may have to stay, for example a held one in an earlier segment.
    const goes = ({ key, value }: { key: string; value: PassRecord }) => keys.has(key) && value.sequences.last <= segmentRange(entry.k).last
    for (const key of keys) {
      const found = await table.get(key)
      if (found && goes(found)) await this.#deps.indexing.erase(key, goes)
    }
  }
}
