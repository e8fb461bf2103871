import {
  type Archive,
  decodeIndex,
  encodeFrame,
  type Frame,
  type IndexedPass,
  type Manifest,
  type ManifestEntry,
  partsIn,
  readSegment,
  segmentName,
  segmentRange,
} from '@passover/archive'
import { type ObjectStore, readHeaders, type Table } from '@passover/bus'
import type { Clock, Custody } from '@passover/core'
import { type PassRecord, sha256 } from '@passover/schemas'
import type { Logger } from 'pino'
import { createdAt, describe } from '../describe.js'
import { sortContents } from '../leaving.js'
import type { LoadDeps } from '../load.js'
import { Looking } from '../looking.js'
import { recordFilter, recordKey } from '../records.js'
import type { Rows } from '../rows.js'
import type { PassIndex } from '../search/pass-index.js'
import { firstSequence } from '../search/position.js'
import type { CustodyWatch } from './custody-watch.js'
import { isHeld } from './held.js'
import { type PartsDeps, removeParts } from './parts-left.js'

export interface AgingDeps extends LoadDeps, PartsDeps {
  clock: Clock
  log: Logger
  archive: Archive
  manifest: Manifest
  objects: ObjectStore
  table: Table<PassRecord>
  rows: Rows
  index: Pick<PassIndex, 'forgetFirst'>
  watch: CustodyWatch
  /** How many days the archive keeps, by the policy in force; undefined: that is not known. */
  retention_days: () => number | undefined
  /** Tells this process's objects from a replica's. */
  instance: string
}

const DAY_MS = 86_400_000
/** Segments looked at before others have their turn. */
const BATCH = 32
/** One that may not go is looked at again after this, or sooner where little is kept. */
const AGAIN_MS = 60_000
/** What of a removed segment the stream keeps, and so the archive. */
const KEPT = new Set(['policy', 'agent', 'custody'])

type Spanned = Pick<ManifestEntry, 'k' | 'last_time' | 'count'>

/**
 * The archive's retention (decision 87): takes segments out whose youngest message is older than the policy keeps, of which nothing but
 * versions stands in the stream and nothing is held. Any number of audits may do it: a manifest entry becomes `removed` once.
 */
export class Aging {
  /** Segments that are kept, oldest first. */
  private kept: Spanned[] | undefined
  private newest = -1
  private readonly again = new Map<number, number>()
  private readonly looking: Looking
  /** Segments that this process removed. */
  removed = 0

  constructor(private readonly deps: AgingDeps) {
    this.looking = new Looking(
      () => this.work(),
      (error) => deps.log.warn({ err: error }, 'nothing removed from the archive'),
    )
  }

  /** Why nothing leaves the archive though it should. */
  get trouble(): string | undefined {
    return this.looking.trouble
  }

  /** Does what is due; at once where it is at it already. */
  look(): Promise<void> {
    return this.looking.look()
  }

  stop(): Promise<void> {
    return this.looking.stop()
  }

  private async work(): Promise<void> {
    const { bus, archive, clock } = this.deps
    const days = this.deps.retention_days()
    if (days === undefined || !bus.clockMeasured) return
    // What refers to parts is known then.
    if (!archive.finder.complete) return
    await this.readNewer()
    const before = bus.now() - days * DAY_MS
    const due = this.agedBefore(before).filter(({ k }) => (this.again.get(k) ?? 0) <= clock.monotonic())
    for (const { k } of due.slice(0, BATCH)) {
      if (this.looking.stopped) return
      // One may take seconds: who asked meanwhile that more is kept is heard before the next.
      if (this.deps.retention_days() !== days) return
      if (await this.remove(k, days)) {
        this.kept = this.kept?.filter((one) => one.k !== k)
        this.again.delete(k)
      } else this.again.set(k, clock.monotonic() + Math.min(AGAIN_MS, days * DAY_MS))
    }
  }

  /** An empty segment is as old as what comes after it. */
  private agedBefore(before: number): Spanned[] {
    const kept = this.kept ?? []
    const until = kept.findLastIndex(({ count, last_time }) => count > 0 && last_time < before)
    return kept.slice(0, until + 1)
  }

  private async readNewer(): Promise<void> {
    const { manifest } = this.deps
    if (!this.kept) {
      const all = await manifest.all()
      await this.finish(all)
      this.kept = all.filter(({ removed }) => !removed).map(spanOf)
      this.newest = all.at(-1)?.k ?? -1
    }
    const newest = (await manifest.newest())?.k ?? -1
    while (this.newest < newest) {
      const entry = await manifest.entry(this.newest + 1)
      if (!entry) return
      this.newest++
      if (!entry.removed) this.kept.push(spanOf(entry))
    }
  }

  /** What a crash left of segments that were removed. */
  private async finish(entries: readonly ManifestEntry[]): Promise<void> {
    const there = new Set(await this.deps.objects.list())
    for (const entry of entries) if (entry.removed && (there.has(entry.object) || there.has(entry.index))) await this.clean(entry)
  }

  /** False: it may not go yet. */
  private async remove(k: number, retention_days: number): Promise<boolean> {
    const { manifest, archive, bus, log, objects, watch } = this.deps
    const standing = await manifest.standing(k)
    if (!standing) return true
    const { entry, revision } = standing
    if (entry.removed) {
      await this.clean(entry)
      return true
    }
    const staying = await this.inStream(k)
    if (!staying) return false
    const passes = await archive.passesSealed(k)
    if (await this.isAnyHeld(passes, await watch.current())) return false
    const kept = await this.keep(k, await readSegment(objects, entry), staying)
    const removed = { why: 'retention' as const, at: bus.now(), retention_days, ...(kept ? { kept } : {}) }
    if (!(await manifest.replace({ ...entry, removed }, revision))) {
      if (kept) await objects.delete(kept.object)
      await archive.finder.renew(entry)
      return false
    }
    await this.clean({ ...entry, removed })
    this.removed++
    log.info({ segment: k, entries: entry.count, retention_days }, 'segment removed: it is older than the archive keeps')
    return true
  }

  /** What the stream still holds of a segment; undefined: something of a pass, which then is open, undelivered or held. */
  private async inStream(k: number): Promise<ReadonlySet<number> | undefined> {
    const { journal, subjects } = this.deps.bus
    const { first, last } = segmentRange(k)
    const found = new Set<number>()
    for (let from = first; from <= last; from++) {
      const stored = await journal.first('>', from)
      if (!stored || stored.sequence > last) return found
      if (!KEPT.has(subjects.parse(stored.subject).kind)) return undefined
      found.add(stored.sequence)
      from = stored.sequence
    }
    return found
  }

  private async isAnyHeld(passes: readonly IndexedPass[], custody: Custody): Promise<boolean> {
    for (const { key, session_id: session } of passes) if (await isHeld(custody, this.deps, { key, session })) return true
    return false
  }

  /** Records of passes that have nothing younger than this segment. */
  private async removeRecords(entry: ManifestEntry, passes: readonly IndexedPass[], frames: readonly Frame[]): Promise<void> {
    const { table, bus, rules } = this.deps
    const { first_time = Number.POSITIVE_INFINITY } = await table.extent()
    // The bucket keeps the newest only.
    if (entry.last_time < first_time) return
    const { contents, add } = sortContents({ bus, rules, known: () => undefined })
    for (const frame of frames) if (frame.kind === 'event') add({ ...frame.event, headers: readHeaders(frame.event.headers) })
    const keys: string[] = []
    for (const { memory, whole } of contents.passes.values()) {
      if (!whole) continue
      const { record } = describe(memory, rules)
      keys.push(recordKey(memory.key, createdAt(record), record.session_id))
    }
    for (const { key, begins } of passes) {
      if (!begins) for await (const found of table.entries(recordFilter(key))) keys.push(found.key)
    }
    const firsts = new Set<number>()
    for (const key of keys) {
      const found = await table.get(key)
      if (!found || found.value.sequences.last > segmentRange(entry.k).last) continue
      await table.erase(key)
      firsts.add(firstSequence(found.value.sequences))
    }
    if (firsts.size > 0) this.deps.index.forgetFirst(firsts)
  }

  /** What later entries are judged by. */
  private async keep(k: number, frames: readonly Frame[], staying: ReadonlySet<number>) {
    const events = frames.flatMap((frame) => (frame.kind === 'event' && staying.has(frame.event.sequence) ? [frame.event] : []))
    if (events.length === 0) return undefined
    const bytes = Buffer.concat(events.map((event) => encodeFrame(event).bytes))
    const object = `${segmentName(k)}.${this.deps.instance}.kept`
    await this.deps.objects.put(object, bytes)
    return { object, sha256: sha256(bytes) }
  }

  /** Records and parts by what the objects say, then the objects: whoever sees the mark later does what a crash left. */
  private async clean(entry: ManifestEntry): Promise<void> {
    const { objects, archive, rows } = this.deps
    archive.forget(entry.k)
    const index = await objects.get(entry.index)
    if (index && (await objects.get(entry.object))) {
      await this.removeRecords(entry, decodeIndex(index), await readSegment(objects, entry))
      await removeParts(this.deps, partsIn(index) ?? [])
    }
    await objects.delete(entry.object)
    await objects.delete(entry.index)
    rows.removeWithin(segmentRange(entry.k))
  }
}

function spanOf({ k, last_time, count }: ManifestEntry): Spanned {
  return { k, last_time, count }
}
