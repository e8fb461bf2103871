import type { ObjectStore } from '@passover/bus'
import { type CountSource, type Due, type FairQueue, OpenPasses, type OpenRules, type PendingRequest, withTimeout } from '@passover/core'
import { type AdvisoryFact, type Fact, keyText, type PassKey, type RequestFact } from '@passover/schemas'
import type { Context } from '../admission/context.js'
import { advanceHeldPass } from '../admission/held-passes.js'
import { JobPool } from '../runtime/job-pool.js'
import { handleAdvisory } from './advisories.js'
import { DecidedPasses } from './decided-passes.js'
import { endPass, type TimekeeperContext } from './end-pass.js'
import { FactStream } from './fact-stream.js'
import { loadSnapshot, type SnapshotState } from './snapshot.js'
import { SnapshotWriter } from './snapshot-writer.js'
import { checkUnanswered, endUnanswered } from './unanswered-requests.js'

/**
 * Maximum number of concurrent checks of unanswered requests. It is low so that, in a backlog, the checks do not slow down admission.
 */
const CHECK_CONCURRENCY = 4
/** Maximum duration of a timer in milliseconds. The clock is adjusted to the server's time regularly, so timers are computed again. */
const MAX_TIMER_MS = 30_000
const RETRY_MS = 1_000

/**
 * Ends passes that no worker ends (I4): folds the headers of the stream into memory and keeps one timer for the next deadline.
 * After a start or a rollback of the stream, it first reads everything that is stored and acts only then, so that a restart ends no pass twice.
 */
export class Timekeeper implements AsyncDisposable {
  readonly #context: TimekeeperContext
  readonly #snapshots: SnapshotWriter
  readonly #decided: DecidedPasses
  readonly #endings: JobPool
  readonly #checks = new JobPool(CHECK_CONCURRENCY)
  /** Passes and requests that are being ended or checked. Replaced when the stream rolls back. */
  #busy = new Set<string>()
  readonly #advisories = new Map<number, AdvisoryFact>()
  readonly #facts: FactStream
  #timer: { at: number; handle: Disposable } | undefined
  #redrive: Disposable | undefined
  #acting = false
  #stopped = false
  /** Called after a request was read, and once when the timekeeper begins to act. */
  onRequest: (() => void) | undefined

  private constructor(context: TimekeeperContext, store: ObjectStore, from: SnapshotState | undefined) {
    this.#context = context
    this.#endings = new JobPool(context.options.endings)
    this.#decided = new DecidedPasses(context.options.redrive_ms)
    this.#snapshots = new SnapshotWriter(context, store, { from, known: () => this.#snapshotState() })
    const handler = { apply: (fact: Fact) => this.#apply(fact), caughtUp: () => this.#startActing(), onRollback: () => this.#discardAll() }
    this.#facts = new FactStream(context.deps, handler, from ?? { position: 0, time: 0 })
  }

  static async start(context: Context): Promise<Timekeeper> {
    const { bus, log } = context.deps
    const rules: OpenRules = { ...context.rules, look_after_ms: context.options.look_after_ms }
    const store = await bus.objects('snapshots')
    const known = await loadSnapshot(bus, store, rules)
    const timekeeper = new Timekeeper({ ...context, open: known?.open ?? new OpenPasses(rules) }, store, known)
    log.info({ from: known?.position ?? 0, open: known?.open.size ?? 0 }, 'timekeeper started')
    await timekeeper.#begin(known)
    return timekeeper
  }

  /** Number of requests without an answer. */
  get unanswered(): number {
    return this.#acting ? this.#context.open.unanswered : 0
  }

  get open(): number {
    return this.#context.open.size + this.#context.open.unanswered
  }

  /** Returns the sequence from which a lost work consumer continues: the subagent's lowest open work, or else the next message to be stored. */
  workStart(subagent: string): number | 'unknown' {
    if (!this.#acting) return 'unknown'
    return this.#context.open.lowestOpenWork(subagent) ?? this.#facts.position + 1
  }

  /** Returns true if an earlier unanswered request asks for this pass, `undefined` if the timekeeper has not read that far. */
  asksEarlier(key: PassKey, sequence: number): boolean | undefined {
    if (!this.#acting || this.#facts.position < sequence) return undefined
    return this.#context.open.asksEarlier(key, sequence)
  }

  /** Returns at most `most` requests that have been unanswered since before `time`, oldest first. */
  unansweredBefore(time: number, most: number): RequestFact[] {
    return this.#acting ? this.#context.open.unansweredBefore(time, most) : []
  }

  /** Source of the counts for limits. */
  get counts(): CountSource {
    return { open: this.#context.open, ready: this.#acting }
  }

  /** Requests that wait for a dispatcher; `undefined` while they are not known yet. */
  get backlog(): FairQueue<PendingRequest> | undefined {
    return this.#acting ? this.#context.open.backlog : undefined
  }

  get position(): number {
    return this.#facts.position
  }

  /** Reason why no passes are ended at the moment; `undefined` if the timekeeper works. */
  get trouble(): string | undefined {
    const { trouble } = this.#facts
    if (trouble !== undefined) return trouble
    return this.#acting ? undefined : `it is still reading the stream, at sequence ${this.#facts.position}`
  }

  /** Resolves when everything stored at its start has been read. */
  get caughtUp(): Promise<void> {
    return this.#facts.caughtUp
  }

  /** Waits at most `ms` milliseconds for endings and checks in progress, then writes a last snapshot. */
  async drain(ms: number): Promise<void> {
    if (this.#stopped) return
    this.#stopped = true
    this.#timer?.handle[Symbol.dispose]()
    this.#redrive?.[Symbol.dispose]()
    this.#snapshots.stop()
    this.#endings.clear()
    this.#checks.clear()
    await withTimeout(this.#context.deps.clock, ms, Promise.all([this.#endings.idle(), this.#checks.idle()]))
    await this.#facts[Symbol.asyncDispose]()
    if (this.#acting) await this.#snapshots.save()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.drain(5_000)
  }

  async #begin(known: SnapshotState | undefined): Promise<void> {
    for (const fact of known?.advisories ?? []) this.#advisories.set(fact.sequence, fact)
    this.#decided.restore(known?.decided ?? [])
    await this.#facts.begin()
    this.#snapshots.schedule()
    this.#scheduleRedrive()
  }

  #snapshotState(): Omit<SnapshotState, 'turn'> | undefined {
    if (!this.#acting) return undefined
    const { position, time } = this.#facts
    return { open: this.#context.open, advisories: [...this.#advisories.values()], decided: this.#decided.names(), position, time }
  }

  #apply(fact: Fact): void {
    const { open } = this.#context
    if (fact.type === 'advisory') this.#noteAdvisory(fact)
    else if (fact.type !== 'decision') open.apply(fact)
    else if (fact.item === 'dispatch' && open.journalOf(fact.key)?.state === 'held') this.#decided.note(fact.key, fact.time)
    if (fact.type === 'step') this.#context.counters.read(fact)
    if (!this.#acting) return
    this.#setTimer()
    if (fact.type === 'request') this.onRequest?.()
  }

  #discardAll(): void {
    const { rules, options } = this.#context
    this.#acting = false
    this.#timer?.handle[Symbol.dispose]()
    this.#timer = undefined
    this.#busy = new Set()
    this.#context.open = new OpenPasses({ ...rules, look_after_ms: options.look_after_ms })
    this.#context.counters.clear()
    this.#advisories.clear()
    this.#decided.clear()
  }

  #startActing(): void {
    if (this.#stopped) return
    this.#acting = true
    for (const fact of this.#advisories.values()) this.#settleAdvisory(fact)
    this.#setTimer()
    this.onRequest?.()
  }

  #setTimer(): void {
    if (!this.#acting || this.#stopped) return
    const at = this.#context.open.nextAt()
    if (at === undefined || (this.#timer && this.#timer.at <= at)) return
    this.#timer?.handle[Symbol.dispose]()
    const { clock } = this.#context.deps
    this.#timer = { at, handle: clock.after(Math.min(MAX_TIMER_MS, Math.max(0, at - clock.now())), () => this.#sweep()) }
  }

  #sweep(): void {
    this.#timer = undefined
    for (const due of this.#context.open.due(this.#context.deps.clock.now())) this.#handleDue(due)
    this.#setTimer()
  }

  #handleDue(due: Due): void {
    if (due.kind === 'look') {
      const { request } = due
      this.#run(this.#checks, `look ${request.sequence}`, () => this.#check(request))
      return
    }
    const { request } = due
    this.#run(this.#endings, keyText(due.key), async () => {
      if (request) return endUnanswered(this.#context, due, request)
      const ended = await endPass(this.#context, due)
      if (ended.kind === 'mine') this.#context.stats.ended++
    })
  }

  async #check(request: RequestFact): Promise<void> {
    if (this.#context.open.awaits(request.sequence)) await checkUnanswered(this.#context, request)
  }

  /**
   * Runs at most one job for each name at a time. A failed job runs again, because the fold returns a due pass until it has ended. Jobs that are
   * queued when the stream rolls back are skipped.
   */
  #run(pool: JobPool, name: string, job: () => Promise<void>): void {
    const busy = this.#busy
    if (!this.#acting || busy.has(name)) return
    busy.add(name)
    pool.add(async () => {
      try {
        if (!this.#stopped && busy === this.#busy) await job()
      } catch (error) {
        this.#context.deps.log.error({ err: error, name }, 'ending the pass failed')
      } finally {
        busy.delete(name)
        this.#setTimer()
      }
    })
  }

  #noteAdvisory(fact: AdvisoryFact): void {
    this.#advisories.set(fact.sequence, fact)
    if (this.#acting) this.#settleAdvisory(fact)
  }

  /** Returns false if the stream rolled back since this advisory was read. */
  #isCurrent(fact: AdvisoryFact): boolean {
    return this.#advisories.get(fact.sequence) === fact
  }

  #settleAdvisory(fact: AdvisoryFact): void {
    if (!this.#isCurrent(fact)) return
    this.#run(this.#endings, `advisory ${fact.sequence}`, async () => {
      let settled = false
      try {
        settled = await handleAdvisory(this.#context, fact)
      } finally {
        if (!settled) this.#context.deps.clock.after(RETRY_MS, () => this.#settleAdvisory(fact))
        else if (this.#isCurrent(fact)) this.#advisories.delete(fact.sequence)
      }
    })
  }

  #scheduleRedrive(): void {
    const { clock } = this.#context.deps
    this.#redrive = clock.after(this.#context.options.redrive_ms / 2, () => {
      if (this.#acting) this.#redriveDecided(clock.now())
      if (!this.#stopped) this.#scheduleRedrive()
    })
  }

  #redriveDecided(now: number): void {
    const isHeld = (key: PassKey) => this.#context.open.journalOf(key)?.state === 'held'
    for (const key of this.#decided.due(now, isHeld)) {
      this.#run(this.#endings, `decided ${keyText(key)}`, async () => {
        if ((await advanceHeldPass(this.#context, key)) !== 'failed') this.#decided.forget(key)
      })
    }
  }
}
