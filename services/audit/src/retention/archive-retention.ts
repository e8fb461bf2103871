import { GapTracker, type IndexedPass, type Manifest, type ManifestEntry, readSegment, segmentRange } from '@passover/archive'
import type { Bus } from '@passover/bus'
import type { Clock, CustodyLog } from '@passover/core'
import type { OverdueArchive } from '@passover/schemas'
import type { IdLookupDeps } from '../erasure/id-lookup.js'
import { isHeld } from '../erasure/legal-hold.js'
import { SingleFlightTask } from '../runtime/single-flight-task.js'
import type { RetentionLimits } from '../watchers/logging-policy.js'
import { DamagedSegments } from './damaged-segments.js'
import { RemovalAnnouncer } from './removal-announcer.js'
import { SegmentCleanup, type SegmentCleanupDeps } from './segment-cleanup.js'

export interface ArchiveRetentionDeps extends IdLookupDeps, SegmentCleanupDeps {
  clock: Clock
  manifest: Manifest
  /** Returns the archive's retention by the policy in force; `undefined` if it is not known. */
  retention: () => RetentionLimits | undefined
}

const DAY_MS = 86_400_000
/** Maximum number of segments processed in one run. With this many due, an announcement is worthwhile at once. */
const BATCH_SIZE = 32
/** Milliseconds after which a segment that has to stay is checked again; shorter if the retention is shorter. */
const RECHECK_MS = 60_000
/** Maximum time in ms that a due segment waits for others to be announced with it; at most 1/24 of the retention. */
const MAX_BATCH_WAIT_MS = 3_600_000
/** Kinds of messages that the stream keeps for good; the archive keeps those of a removed segment too. */
const KEPT_KINDS = new Set(['policy', 'agent', 'custody'])

export type OverdueSegment = OverdueArchive['segments'][number]

type SegmentSpan = Pick<ManifestEntry, 'k' | 'last_time' | 'count'>

/**
 * Applies the archive's retention (decision 87). Removes segments whose newest message is older than the policy's retention, of which the
 * stream holds only messages that it keeps for good, and in which no pass is held. Each removal is announced in the stream first. Any number of
 * audits may run this: a manifest entry becomes `removed` only once.
 */
export class ArchiveRetention {
  readonly #deps: ArchiveRetentionDeps
  /** Segments that are not removed, oldest first. */
  #kept: SegmentSpan[] | undefined
  #newest = -1
  readonly #missing = new GapTracker()
  readonly #again = new Map<number, number>()
  /** What keeps segments that are due. */
  readonly #staying = new Map<number, OverdueSegment>()
  readonly #damaged = new DamagedSegments()
  readonly #task: SingleFlightTask
  readonly #announcer: RemovalAnnouncer
  readonly #cleanup: SegmentCleanup
  /** Number of segments that this process removed. */
  removed = 0

  constructor(deps: ArchiveRetentionDeps) {
    this.#deps = deps
    this.#announcer = new RemovalAnnouncer(deps)
    this.#cleanup = new SegmentCleanup(deps, this.#announcer)
    this.#task = new SingleFlightTask(
      () => this.#work(),
      (error) => deps.log.warn({ err: error }, 'some segments that are due were not removed from the archive'),
    )
  }

  /** Reason why segments that are due are not removed. */
  get trouble(): string | undefined {
    return this.#task.trouble
  }

  /** Returns the due segments that had to stay when they were last checked, oldest first. */
  overdue(): OverdueSegment[] {
    return [...this.#staying.values()].sort((a, b) => a.segment - b.segment)
  }

  /** Removes what is due, or joins the run in progress. */
  look(): Promise<void> {
    return this.#task.run()
  }

  stop(): Promise<void> {
    return this.#task.stop()
  }

  async #work(): Promise<void> {
    await this.#age()
    this.#damaged.tell()
  }

  async #age(): Promise<void> {
    const { bus, archive, watch } = this.#deps
    if (!bus.clockMeasured || !(await this.#announcer.isBegun())) return
    const retention = this.#deps.retention()
    if (retention === undefined) return
    // Until the index is complete, references to parts are not fully known.
    if (!archive.finder.complete) return
    await this.#readNewer()
    const before = bus.now() - retention.days * DAY_MS
    const due = this.#dueBefore(before)
    // Removals that were already announced are always completed.
    const some = this.#isWorthIt(due, before, retention) ? due : due.filter(({ k }) => watch.custody.toldOf(k))
    if (some.length === 0) return
    const { position } = await watch.current()
    const told: ManifestEntry[] = []
    const untold: ManifestEntry[] = []
    for (const entry of await this.#thatMayGo(some.slice(0, BATCH_SIZE), retention))
      ((await this.#announcer.tells(entry.k)) ? told : untold).push(entry)
    // The segments that justify an announcement may be among those that have to stay, so this is checked again.
    if (this.#isWorthIt(untold, before, retention)) {
      // The checks may have taken minutes, so the announcement is made only if the same policy is still in force.
      if (!this.#isInForce(retention) || !(await this.#announcer.tell(untold, retention, position))) return
      told.push(...untold)
    }
    for (const { k } of told) {
      // Removing a segment may take seconds. Stops before the next one if the retention has changed meanwhile.
      if (this.#task.stopped || this.#deps.retention()?.days !== retention.days) return
      if (await this.#damaged.unless(k, () => this.#remove(k, retention.days))) this.#done(k)
      else this.#putOff(k, retention)
    }
  }

  #isInForce({ days, policy }: RetentionLimits): boolean {
    const now = this.#deps.retention()
    return now?.days === days && now.policy === policy
  }

  /** True if an announcement is worthwhile: it stays in the stream for good, so a few due segments wait for more, for a limited time. */
  #isWorthIt(due: readonly SegmentSpan[], before: number, { days }: RetentionLimits): boolean {
    const oldest = due.find(({ count }) => count > 0)
    const patience = Math.min(MAX_BATCH_WAIT_MS, (days * DAY_MS) / 24)
    return due.length >= BATCH_SIZE || (oldest !== undefined && before - oldest.last_time >= patience)
  }

  /** Returns those of the due segments that nothing keeps. */
  async #thatMayGo(due: readonly SegmentSpan[], retention: RetentionLimits): Promise<ManifestEntry[]> {
    const going: ManifestEntry[] = []
    for (const { k } of due) {
      if (this.#task.stopped) return []
      const found = await this.#damaged.unless(k, () => this.#thatGoes(k))
      if (found === 'gone') this.#done(k)
      else if (found) going.push(found)
      else this.#putOff(k, retention)
    }
    return going
  }

  /** Returns the entry of a segment that may be removed, or `gone` if it is removed already; `undefined` if it has to stay for now. */
  async #thatGoes(k: number): Promise<ManifestEntry | 'gone' | undefined> {
    const entry = await this.#deps.manifest.entry(k)
    if (entry && !entry.removed) return (await this.#mayGo(k)) ? entry : undefined
    if (entry) await this.#cleanup.clean(entry)
    return 'gone'
  }

  async #mayGo(k: number): Promise<boolean> {
    const { archive, watch } = this.#deps
    if ((await this.#inStream(k)) === undefined) return false
    if (!(await this.#isAnyHeld(await archive.passesIn(k), await watch.current()))) return true
    this.#staying.set(k, { segment: k, why: 'hold' })
    return false
  }

  #done(k: number): void {
    this.#kept = this.#kept?.filter((one) => one.k !== k)
    this.#again.delete(k)
    this.#staying.delete(k)
  }

  #putOff(k: number, { days }: RetentionLimits): void {
    this.#again.set(k, this.#deps.clock.monotonic() + Math.min(RECHECK_MS, days * DAY_MS))
  }

  #dueBefore(before: number): SegmentSpan[] {
    const aged = this.#agedBefore(before)
    this.#damaged.keep(aged)
    for (const k of this.#staying.keys()) if (!aged.some((one) => one.k === k)) this.#staying.delete(k)
    return aged.filter(({ k }) => (this.#again.get(k) ?? 0) <= this.#deps.clock.monotonic())
  }

  /** Returns the segments older than a time. An empty segment counts as old as the next one with messages. */
  #agedBefore(before: number): SegmentSpan[] {
    const kept = this.#kept ?? []
    const until = kept.findLastIndex(({ count, last_time }) => count > 0 && last_time < before)
    return kept.slice(0, until + 1)
  }

  async #readNewer(): Promise<void> {
    const { manifest } = this.#deps
    if (!this.#kept) {
      const all = await manifest.all()
      await this.#finish(all)
      this.#kept = all.filter(({ k, removed }) => !removed || this.#damaged.has(k)).map(spanOf)
      this.#newest = all.at(-1)?.k ?? -1
      this.#missing.take(all)
    }
    for await (const entry of this.#missing.filled(manifest)) {
      if (!entry.removed) this.#kept = [...this.#kept, spanOf(entry)].sort((a, b) => a.k - b.k)
    }
    const newest = (await manifest.newest())?.k ?? -1
    while (this.#newest < newest) {
      const entry = await manifest.entry(this.#newest + 1)
      if (!entry) return
      this.#newest++
      if (!entry.removed) this.#kept.push(spanOf(entry))
    }
  }

  /** Completes removals that a crash interrupted, and forgets what this process has in memory of segments that another audit removed. */
  async #finish(entries: readonly ManifestEntry[]): Promise<void> {
    const there = new Set(await this.#deps.objects.list())
    const gone: ManifestEntry[] = []
    for (const entry of entries) {
      if (!entry.removed) continue
      if (there.has(entry.object) || there.has(entry.index)) await this.#damaged.unless(entry.k, () => this.#cleanup.clean(entry))
      else gone.push(entry)
    }
    if (gone.length > 0) await this.#cleanup.forget(gone)
  }

  /** Removes a segment. Returns false if it has to stay for now. */
  async #remove(k: number, retention_days: number): Promise<boolean> {
    const { manifest, archive, bus, log, objects, watch } = this.#deps
    const standing = await manifest.standing(k)
    if (!standing) return true
    const { entry, revision } = standing
    if (entry.removed) {
      await this.#cleanup.clean(entry)
      return true
    }
    const staying = await this.#inStream(k)
    if (!staying) return false
    const passes = await archive.passesIn(k)
    if (await this.#isAnyHeld(passes, await watch.current())) return false
    const kept = await this.#cleanup.keep(k, await readSegment(objects, entry), staying)
    const removed = { why: 'retention' as const, at: bus.now(), retention_days, ...(kept ? { kept } : {}) }
    if (!(await manifest.replace({ ...entry, removed }, revision))) {
      if (kept) await objects.delete(kept.object)
      await archive.finder.renew(entry)
      return false
    }
    await this.#cleanup.clean({ ...entry, removed })
    this.removed++
    log.info({ segment: k, entries: entry.count, retention_days }, 'segment removed: its retention is over')
    return true
  }

  /** Returns the sequences of a segment still in the stream; `undefined` if one belongs to a pass, which is then open, undelivered or held. */
  async #inStream(k: number): Promise<ReadonlySet<number> | undefined> {
    const { journal, subjects } = this.#deps.bus
    const { first, last } = segmentRange(k)
    const found = new Set<number>()
    for (let from = first; from <= last; from++) {
      const stored = await journal.first('>', from)
      if (!stored || stored.sequence > last) return found
      const subject = subjects.parse(stored.subject)
      if (!KEPT_KINDS.has(subject.kind)) {
        this.#staying.set(k, { segment: k, why: 'stream', sequence: stored.sequence, ...partiesOf(subject) })
        return undefined
      }
      found.add(stored.sequence)
      from = stored.sequence
    }
    return found
  }

  async #isAnyHeld(passes: readonly IndexedPass[], custody: CustodyLog): Promise<boolean> {
    for (const { key, session_id: session, sequences } of passes) {
      if (await isHeld(custody, this.#deps, { key, session, sequences })) return true
    }
    return false
  }
}

/** Returns the parties of the pass that a message belongs to, as far as its subject names them. */
function partiesOf(subject: ReturnType<Bus['subjects']['parse']>): Pick<OverdueSegment, 'originator' | 'subagent' | 'id'> {
  if (subject.kind === 'request') return { originator: subject.originator, subagent: subject.subagent }
  return 'key' in subject ? subject.key : {}
}

function spanOf({ k, last_time, count }: ManifestEntry): SegmentSpan {
  return { k, last_time, count }
}
