import { type Manifest, type ManifestEntry, segmentRanges } from '@passover/archive'
import type { Bus } from '@passover/bus'
import type { Logger } from 'pino'
import { publishCustodyEvent, type SystemCustodyEvent } from '../erasure/publish-custody-event.js'
import type { CustodyWatcher } from '../watchers/custody-watcher.js'
import type { RetentionLimits } from '../watchers/logging-policy.js'

export interface RemovalAnnouncerDeps {
  bus: Pick<Bus, 'publish' | 'subjects'>
  log: Logger
  manifest: Pick<Manifest, 'all' | 'entry' | 'newest'>
  watch: Pick<CustodyWatcher, 'custody' | 'current'>
}

/** Of one event; more were removed in none but the strangest archive. */
const MAX_RANGES = 2_000

/**
 * Says in the stream what retention takes out of the archive, before it does (decision 113). What is said is guarded on all that was said about
 * custody: a hold that stands before it is known, and of several audits one says it.
 */
export class RemovalAnnouncer {
  constructor(private readonly deps: RemovalAnnouncerDeps) {}

  /** From an event on, which the first audit stores that can, each removal is told. False: it is not stored yet. */
  async isBegun(): Promise<boolean> {
    const { watch, manifest, log } = this.deps
    if (watch.custody.removals_since !== undefined) return true
    // Nothing can be removed before there is something.
    if (!(await manifest.newest())) return false
    const { position, removals_since } = await watch.current()
    if (removals_since !== undefined) return true
    const all = await manifest.all()
    const untold = segmentRanges(all.filter(({ removed }) => removed))
    if (untold.length > MAX_RANGES)
      log.warn({ runs: untold.length }, 'more was removed before removals were told than can be said: verify will name the rest')
    return await this.say({ kind: 'removals', begins: all[0]?.k ?? 0, untold: untold.slice(0, MAX_RANGES) }, position)
  }

  /** Whether an event told of a segment of this very archive: one that was lost and sealed anew has another chain. */
  async tells(k: number): Promise<boolean> {
    if (await this.knows(k)) return true
    // Another audit may have told it just now.
    await this.deps.watch.current()
    return await this.knows(k)
  }

  private async knows(k: number): Promise<boolean> {
    const run = this.deps.watch.custody.toldOf(k)
    return run !== undefined && (await this.deps.manifest.entry(run.to))?.chain_after === run.chain_after
  }

  /** Segments leave. False: something was said about custody after `position`, and they are looked at again. */
  async tell(entries: readonly ManifestEntry[], { days, policy }: RetentionLimits, position: number): Promise<boolean> {
    const segments = segmentRanges(entries)
    const told = await this.say({ kind: 'removed', segments, policy, retention_days: days }, position)
    if (told) this.deps.log.info({ segments: segments.map(({ from, to }) => [from, to]), policy, retention_days: days }, 'removal told')
    return told
  }

  /** Throws where it is not known whether it was stored. */
  private async say(said: SystemCustodyEvent, position: number): Promise<boolean> {
    return (await publishCustodyEvent(this.deps, said, { position, failure: 'what leaves the archive was not told' })) !== undefined
  }
}
