import { type Archive, type Manifest, segmentOf } from '@passover/archive'
import type { ObjectStore } from '@passover/bus'
import type { Clock } from '@passover/core'
import { keyText, type PassKey } from '@passover/schemas'
import type { Logger } from 'pino'
import { forEachConcurrent } from '../runtime/concurrency.js'
import { SingleFlightTask } from '../runtime/single-flight-task.js'
import { DeferredDeletions } from './deferred-deletions.js'
import { type DeferredPass, type DeferredSegment, DeletionState } from './deletion-state.js'
import { LaterReferences } from './later-references.js'
import { padSegment } from './pad-segment.js'
import { type DeletionDeps, type IsYounger, SegmentDeleter } from './segment-deleter.js'
import { SegmentPrefetch } from './segment-prefetch.js'

export interface DeleterDeps extends DeletionDeps {
  manifest: Manifest
  archive: Archive
  objects: ObjectStore
  clock: Clock
  log: Logger
  /** Returns sequence and time of the last message that the reader took. */
  read: () => { sequence: number; time: number }
  /** Returns a check whether an unsealed segment after k names a pass. */
  unsealed: () => (key: PassKey, k: number) => boolean
  /** Name of this process as the lease holder, and the milliseconds after which another process may take over if this one dies. */
  holder: string
  lease_ms: number
}

interface Younger {
  /** Server time in milliseconds up to which everything was read. */
  now: number
  isYounger: IsYounger
}

/** Maximum number of segments processed before younger messages are read again. */
const SEGMENTS_PER_RUN = 256
/** Minimum milliseconds between two checks of deferred passes. */
const DEFERRED_CHECK_MS = 5_000
/** Number of passes checked at a time. */
const CONCURRENCY = 16

/**
 * Deletes archived messages from the stream (docs/architecture/audit-archive.md#deletion-from-the-stream). Processes one archived segment after the
 * other, once its youngest message is older than two id windows, and deletes the messages of closed passes. An open pass needs no list: its end is
 * stored later, and a pass is deleted with the segment of its last message that counts. Only one of several audits deletes at a time.
 */
export class Deleter {
  readonly #deps: DeleterDeps
  readonly #state: DeletionState
  readonly segments: SegmentDeleter
  readonly #deferred: DeferredDeletions
  readonly #prefetch: SegmentPrefetch
  #later: LaterReferences | undefined
  /** Value of `state.taken` when `deferred` and `later` were loaded. */
  #taken = 0
  readonly #task: SingleFlightTask
  #lookedAgain = Number.NEGATIVE_INFINITY

  private constructor(deps: DeleterDeps, state: DeletionState) {
    this.#deps = deps
    this.#state = state
    this.segments = new SegmentDeleter(deps)
    this.#prefetch = new SegmentPrefetch(deps)
    this.#deferred = new DeferredDeletions(state)
    this.#task = new SingleFlightTask(
      () => this.#work(),
      (error) => {
        this.segments.pace.restart()
        deps.log.warn({ err: error, segment: state.next }, 'messages not deleted')
      },
    )
  }

  static async open(deps: DeleterDeps): Promise<Deleter> {
    return new Deleter(deps, await DeletionState.open(deps.bus, deps))
  }

  /** First segment that is not processed yet. */
  get next(): number {
    return this.#state.next
  }

  /** Number of passes and advisories that were deferred in the segments before {@link next}. */
  get waiting(): number {
    return this.#deferred.size
  }

  /** Reason why due deletions are not made. */
  get trouble(): string | undefined {
    return this.#task.trouble
  }

  /** Runs the deletions that are due. During a run, returns that run. */
  look(): Promise<void> {
    return this.#task.run()
  }

  async stop(): Promise<void> {
    const over = this.#task.stop()
    this.segments.stop()
    await over
    await this.#state.release().catch(() => undefined)
  }

  async #work(): Promise<void> {
    // With an unsynchronized clock, recent messages could look old and another process's lease expired.
    if (!this.#deps.bus.clockMeasured) throw new Error('the server’s clock has not been measured; nothing is deleted until then')
    // Until then, the messages and the legal hold of an old pass may not be found.
    if (!this.#deps.archive.finder.complete) return
    if (!(await this.#holds())) {
      this.#later = undefined
      return
    }
    await this.#takeOver()
    const found = await this.#younger()
    if (!found) return
    let done = 0
    while (done < SEGMENTS_PER_RUN && !this.#task.stopped && (await this.#segment(found))) done++
    if (done === 0 && !this.#task.stopped && this.#later) await this.#makeRoom(this.#state.next)
    if (!this.#task.stopped && this.#later) await this.#lookAgain(found.isYounger)
  }

  async #makeRoom(k: number): Promise<void> {
    const stored = await padSegment(this.#deps, k)
    if (stored > 0)
      this.#deps.log.warn({ segment: k, stored }, 'the stream accepts no requests; filled up its last segment so that it can be deleted')
  }

  /** True if this process holds the lease. Acquires or renews it if possible. */
  async #holds(): Promise<boolean> {
    return !this.#task.stopped && (await this.#state.hold(() => this.#begin()))
  }

  /** Returns the segment where the first deleter starts, or `undefined` if the first segment of the stream is not archived yet. */
  async #begin(): Promise<number | undefined> {
    const { first } = await this.#deps.bus.bounds()
    const k = segmentOf(Math.max(1, first))
    if (await this.#deps.manifest.entry(k)) return k
    await this.#makeRoom(k)
    return undefined
  }

  /** Loads the state that another process left behind. */
  async #takeOver(): Promise<void> {
    const { taken } = this.#state
    if (this.#later && this.#taken === taken) return
    await this.#deferred.load()
    this.#later = new LaterReferences(this.#deps, this.#state.next + 1)
    this.#taken = taken
  }

  /** Processes the next segment. Returns false if none is due or another process took over. */
  async #segment({ now, isYounger }: Younger): Promise<boolean> {
    const { clock, rules } = this.#deps
    const { next } = this.#state
    const segment = await this.#prefetch.take(next, ({ last_time }) => last_time + 2 * rules.id_window_ms < now)
    if (!segment) return false
    await this.#later?.prefetch(next)
    const deferred = this.#deferred.texts()
    const { left, texts } = await this.segments.run(segment, { isYounger, isDeferred: (text) => deferred.has(text) })
    await this.#deferred.removePasses(new Set(texts))
    if (left.passes.length + left.advisories.length > 0) await this.#deferred.put(next, left)
    this.#later?.forget(texts, next)
    this.#deps.log.debug({ segment: next, left: left.passes.length, deleted: this.segments.deleted }, 'segment deleted')
    const begun = clock.monotonic()
    const isOurs = await this.#state.advance(next + 1)
    this.segments.pace.recordLatency(clock.monotonic() - begun)
    // Forces a reload of the deferred passes when this process holds the lease again.
    if (!isOurs) this.#later = undefined
    return isOurs
  }

  /**
   * Returns the check for younger messages, as of the time of the last message read. A request stored later asks for a pass that was older than two
   * id windows at that time, so it need not be known. An audit that lags deletes later, but it does delete.
   */
  async #younger(): Promise<Younger | undefined> {
    const now = await this.#readAt()
    const unsealed = this.#deps.unsealed()
    const later = this.#later
    // Holds the lease during the read. Otherwise another process would take over, then this one again after that one's read, and neither
    // would ever delete.
    if (!later || !(await later.refresh(async () => (await this.#holds()) && this.#taken === this.#state.taken))) {
      this.#later = undefined
      return undefined
    }
    return { now, isYounger: (key, k) => later.isReferencedAfter(keyText(key), k) || unsealed(key, k) }
  }

  /** Returns the server time in milliseconds up to which everything stored was read: the current time if nothing is unread. */
  async #readAt(): Promise<number> {
    const { bus, read } = this.#deps
    const now = bus.now()
    const { last } = await bus.bounds()
    const { sequence, time } = read()
    return sequence < last ? Math.min(now, time) : now
  }

  async #lookAgain(isYounger: IsYounger): Promise<void> {
    const { clock } = this.#deps
    if (this.#deferred.size === 0 || clock.monotonic() - this.#lookedAgain < DEFERRED_CHECK_MS) return
    for await (const { k, waiting, crowded } of this.#deferred.due()) {
      if (this.#task.stopped) return
      await this.#againIn(k, waiting, { isYounger, crowded })
    }
    this.#lookedAgain = clock.monotonic()
  }

  async #againIn(k: number, waiting: DeferredSegment, how: { isYounger: IsYounger; crowded: ReadonlySet<DeferredPass> }): Promise<void> {
    const state = this.#state
    const { segments } = this
    const width = () => CONCURRENCY
    const still: DeferredSegment = { passes: [], advisories: [] }
    await forEachConcurrent(waiting.passes, width, async (pass) => {
      const crowded = how.crowded.has(pass)
      const isDue = crowded || this.#dueAt(pass) <= this.#deps.bus.now() || (await this.#isTaken(pass))
      const again = isDue ? await segments.again(pass.key, { next: state.next, isYounger: how.isYounger, crowded }) : pass
      if (again) still.passes.push(again)
    })
    await forEachConcurrent(waiting.advisories, width, async (one) => {
      if (await segments.isNeeded(one)) still.advisories.push(one)
    })
    const gone = waiting.passes.length + waiting.advisories.length - still.passes.length - still.advisories.length
    if (gone > 0) await this.#deferred.put(k, still)
  }

  /** Returns when a pass has to be checked again. For a dead letter this depends on the policy, which may have changed since. */
  #dueAt({ letter, due }: DeferredPass): number {
    return letter === undefined ? due : letter + this.#deps.deadLettersMs()
  }

  async #isTaken({ key, returned }: DeferredPass): Promise<boolean> {
    return returned !== undefined && (await this.#deps.acknowledged.has(key.originator, returned))
  }
}
