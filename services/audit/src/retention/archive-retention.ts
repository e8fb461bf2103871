import { GapTracker, type IndexedPass, type Manifest, type ManifestEntry, readSegment, segmentRange } from '@passover/archive'
import type { Clock, CustodyLog } from '@passover/core'
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
  /** How long the archive keeps, by the policy in force; undefined: that is not known. */
  retention: () => RetentionLimits | undefined
}

const DAY_MS = 86_400_000
/** Segments looked at before others have their turn. */
const BATCH_SIZE = 32
/** One that may not go is looked at again after this, or sooner where little is kept. */
const RECHECK_MS = 60_000
/** One that is due waits so long for others, at most a twenty-fourth of what is kept. */
const MAX_BATCH_WAIT_MS = 3_600_000
/** What of a removed segment the stream keeps, and so the archive. */
const KEPT_KINDS = new Set(['policy', 'agent', 'custody'])

type SegmentSpan = Pick<ManifestEntry, 'k' | 'last_time' | 'count'>

/**
 * The archive's retention (decisions 87 and 113): takes segments out whose youngest message is older than the policy keeps, of which nothing but
 * versions stands in the stream and nothing is held. Each is told in the stream first. Any number of audits may do it: a manifest entry becomes
 * `removed` once.
 */
export class ArchiveRetention {
  /** Segments that are kept, oldest first. */
  private kept: SegmentSpan[] | undefined
  private newest = -1
  private readonly missing = new GapTracker()
  private readonly again = new Map<number, number>()
  private readonly damaged = new DamagedSegments()
  private readonly looking: SingleFlightTask
  private readonly telling: RemovalAnnouncer
  private readonly clearing: SegmentCleanup
  /** Segments that this process removed. */
  removed = 0

  constructor(private readonly deps: ArchiveRetentionDeps) {
    this.telling = new RemovalAnnouncer(deps)
    this.clearing = new SegmentCleanup(deps, this.telling)
    this.looking = new SingleFlightTask(
      () => this.work(),
      (error) => deps.log.warn({ err: error }, 'not all that is due leaves the archive'),
    )
  }

  /** Why nothing leaves the archive though it should. */
  get trouble(): string | undefined {
    return this.looking.trouble
  }

  /** Does what is due; at once where it is at it already. */
  look(): Promise<void> {
    return this.looking.run()
  }

  stop(): Promise<void> {
    return this.looking.stop()
  }

  private async work(): Promise<void> {
    await this.age()
    this.damaged.tell()
  }

  private async age(): Promise<void> {
    const { bus, archive, watch } = this.deps
    if (!bus.clockMeasured || !(await this.telling.isBegun())) return
    const retention = this.deps.retention()
    if (retention === undefined) return
    // What refers to parts is known then.
    if (!archive.finder.complete) return
    await this.readNewer()
    const before = bus.now() - retention.days * DAY_MS
    const due = this.dueBefore(before)
    // What was told is finished.
    const some = this.isWorthIt(due, before, retention) ? due : due.filter(({ k }) => watch.custody.toldOf(k))
    if (some.length === 0) return
    const { position } = await watch.current()
    const told: ManifestEntry[] = []
    const untold: ManifestEntry[] = []
    for (const entry of await this.thatMayGo(some.slice(0, BATCH_SIZE), retention))
      ((await this.telling.tells(entry.k)) ? told : untold).push(entry)
    // What made it worth it may have to stay.
    if (this.isWorthIt(untold, before, retention)) {
      // That may have taken minutes: what is told is what is in force now.
      if (!this.isInForce(retention) || !(await this.telling.tell(untold, retention, position))) return
      told.push(...untold)
    }
    for (const { k } of told) {
      // One may take seconds: who asked meanwhile that more is kept is heard before the next.
      if (this.looking.stopped || this.deps.retention()?.days !== retention.days) return
      if (await this.damaged.unless(k, () => this.remove(k, retention.days))) this.done(k)
      else this.putOff(k, retention)
    }
  }

  private isInForce({ days, policy }: RetentionLimits): boolean {
    const now = this.deps.retention()
    return now?.days === days && now.policy === policy
  }

  /** What is told stays in the stream for good: a few that are due wait for others, but not for long. */
  private isWorthIt(due: readonly SegmentSpan[], before: number, { days }: RetentionLimits): boolean {
    const oldest = due.find(({ count }) => count > 0)
    const patience = Math.min(MAX_BATCH_WAIT_MS, (days * DAY_MS) / 24)
    return due.length >= BATCH_SIZE || (oldest !== undefined && before - oldest.last_time >= patience)
  }

  /** Of which nothing keeps them. */
  private async thatMayGo(due: readonly SegmentSpan[], retention: RetentionLimits): Promise<ManifestEntry[]> {
    const going: ManifestEntry[] = []
    for (const { k } of due) {
      if (this.looking.stopped) return []
      const found = await this.damaged.unless(k, () => this.thatGoes(k))
      if (found === 'gone') this.done(k)
      else if (found) going.push(found)
      else this.putOff(k, retention)
    }
    return going
  }

  /** Undefined: it may not go yet. */
  private async thatGoes(k: number): Promise<ManifestEntry | 'gone' | undefined> {
    const entry = await this.deps.manifest.entry(k)
    if (entry && !entry.removed) return (await this.mayGo(k)) ? entry : undefined
    if (entry) await this.clearing.clean(entry)
    return 'gone'
  }

  private async mayGo(k: number): Promise<boolean> {
    const { archive, watch } = this.deps
    if ((await this.inStream(k)) === undefined) return false
    return !(await this.isAnyHeld(await archive.passesIn(k), await watch.current()))
  }

  private done(k: number): void {
    this.kept = this.kept?.filter((one) => one.k !== k)
    this.again.delete(k)
  }

  private putOff(k: number, { days }: RetentionLimits): void {
    this.again.set(k, this.deps.clock.monotonic() + Math.min(RECHECK_MS, days * DAY_MS))
  }

  private dueBefore(before: number): SegmentSpan[] {
    const aged = this.agedBefore(before)
    this.damaged.keep(aged)
    return aged.filter(({ k }) => (this.again.get(k) ?? 0) <= this.deps.clock.monotonic())
  }

  /** An empty segment is as old as what comes after it. */
  private agedBefore(before: number): SegmentSpan[] {
    const kept = this.kept ?? []
    const until = kept.findLastIndex(({ count, last_time }) => count > 0 && last_time < before)
    return kept.slice(0, until + 1)
  }

  private async readNewer(): Promise<void> {
    const { manifest } = this.deps
    if (!this.kept) {
      const all = await manifest.all()
      await this.finish(all)
      this.kept = all.filter(({ k, removed }) => !removed || this.damaged.has(k)).map(spanOf)
      this.newest = all.at(-1)?.k ?? -1
      this.missing.take(all)
    }
    for await (const entry of this.missing.filled(manifest)) {
      if (!entry.removed) this.kept = [...this.kept, spanOf(entry)].sort((a, b) => a.k - b.k)
    }
    const newest = (await manifest.newest())?.k ?? -1
    while (this.newest < newest) {
      const entry = await manifest.entry(this.newest + 1)
      if (!entry) return
      this.newest++
      if (!entry.removed) this.kept.push(spanOf(entry))
    }
  }

  /** What a crash left of segments that were removed, and what this process read of those that another audit removed. */
  private async finish(entries: readonly ManifestEntry[]): Promise<void> {
    const there = new Set(await this.deps.objects.list())
    const gone: ManifestEntry[] = []
    for (const entry of entries) {
      if (!entry.removed) continue
      if (there.has(entry.object) || there.has(entry.index)) await this.damaged.unless(entry.k, () => this.clearing.clean(entry))
      else gone.push(entry)
    }
    if (gone.length > 0) await this.clearing.forget(gone)
  }

  /** False: it may not go yet. */
  private async remove(k: number, retention_days: number): Promise<boolean> {
    const { manifest, archive, bus, log, objects, watch } = this.deps
    const standing = await manifest.standing(k)
    if (!standing) return true
    const { entry, revision } = standing
    if (entry.removed) {
      await this.clearing.clean(entry)
      return true
    }
    const staying = await this.inStream(k)
    if (!staying) return false
    const passes = await archive.passesIn(k)
    if (await this.isAnyHeld(passes, await watch.current())) return false
    const kept = await this.clearing.keep(k, await readSegment(objects, entry), staying)
    const removed = { why: 'retention' as const, at: bus.now(), retention_days, ...(kept ? { kept } : {}) }
    if (!(await manifest.replace({ ...entry, removed }, revision))) {
      if (kept) await objects.delete(kept.object)
      await archive.finder.renew(entry)
      return false
    }
    await this.clearing.clean({ ...entry, removed })
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
      if (!KEPT_KINDS.has(subjects.parse(stored.subject).kind)) return undefined
      found.add(stored.sequence)
      from = stored.sequence
    }
    return found
  }

  private async isAnyHeld(passes: readonly IndexedPass[], custody: CustodyLog): Promise<boolean> {
    for (const { key, session_id: session, sequences } of passes) {
      if (await isHeld(custody, this.deps, { key, session, sequences })) return true
    }
    return false
  }
}

function spanOf({ k, last_time, count }: ManifestEntry): SegmentSpan {
  return { k, last_time, count }
}
