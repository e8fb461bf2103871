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

/** Maximum number of segment ranges in one event; only a very unusual archive has more. */
const MAX_RANGES = 2_000

/**
 * Announces in the stream what retention removes from the archive, before it is removed (decision 87). Each announcement is guarded on all earlier
 * custody events, so that holds placed before it are known, and only one of several audits publishes it.
 */
export class RemovalAnnouncer {
  readonly #deps: RemovalAnnouncerDeps

  constructor(deps: RemovalAnnouncerDeps) {
    this.#deps = deps
  }

  /** Ensures that the event is stored after which every removal is announced; the first audit publishes it. Returns false if it is not stored yet. */
  async isBegun(): Promise<boolean> {
    const { watch, manifest, log } = this.#deps
    if (watch.custody.removals_since !== undefined) return true
    // Nothing can have been removed while the archive is empty.
    if (!(await manifest.newest())) return false
    const { position, removals_since } = await watch.current()
    if (removals_since !== undefined) return true
    const all = await manifest.all()
    const untold = segmentRanges(all.filter(({ removed }) => removed))
    if (untold.length > MAX_RANGES)
      log.warn({ runs: untold.length }, 'too many segments were removed before removals were recorded; verify reports the rest')
    return await this.#say({ kind: 'removals', begins: all[0]?.k ?? 0, untold: untold.slice(0, MAX_RANGES) }, position)
  }

  /** True if the removal of a segment of this archive was announced. An archive that was lost and sealed again has a different chain. */
  async tells(k: number): Promise<boolean> {
    if (await this.#knows(k)) return true
    // Another audit may have announced it a moment ago.
    await this.#deps.watch.current()
    return await this.#knows(k)
  }

  async #knows(k: number): Promise<boolean> {
    const run = this.#deps.watch.custody.toldOf(k)
    return run !== undefined && (await this.#deps.manifest.entry(run.to))?.chain_after === run.chain_after
  }

  /** Announces the removal of segments. False if a custody event was stored after `position`, so that the segments must be checked again. */
  async tell(entries: readonly ManifestEntry[], { days, policy }: RetentionLimits, position: number): Promise<boolean> {
    const segments = segmentRanges(entries)
    const told = await this.#say({ kind: 'removed', segments, policy, retention_days: days }, position)
    if (told)
      this.#deps.log.info({ segments: segments.map(({ from, to }) => [from, to]), policy, retention_days: days }, 'removal recorded')
    return told
  }

  /** Publishes a custody event. Throws if it is unknown whether the event was stored. */
  async #say(event: SystemCustodyEvent, position: number): Promise<boolean> {
    return (await publishCustodyEvent(this.#deps, event, { position, failure: 'removal not recorded' })) !== undefined
  }
}
