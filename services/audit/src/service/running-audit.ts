import type { IdIndex } from '@passover/archive'
import type { Consumption, StreamSubscription } from '@passover/bus'
import type { HealthReport } from '@passover/schemas'
import type { Registry } from 'prom-client'
import type { CatchUp } from '../archive/catch-up.js'
import type { Deleter } from '../deletion/deleter.js'
import type { RollbackDetector } from '../watchers/rollback-detector.js'
import { type AuditStats, auditMetrics } from './metrics.js'
import type { RemovalTasks } from './open-retention.js'
import type { AuditComponents } from './parts.js'

/** Milliseconds without progress after which a reader that is behind counts as stalled, even if it reports no trouble. */
const STALLED_MS = 10_000

/** Detects a reader that stays at one position although more messages are stored. */
export class StallDetector {
  #position = -1
  #since = 0

  /** Returns a description of the stall, or `undefined`. Call it at least every few seconds. `now` is monotonic, in ms. */
  trouble({ position, lag }: Pick<AuditStats, 'position' | 'lag'>, now: number): string | undefined {
    if (position !== this.#position || lag === 0) {
      this.#position = position
      this.#since = now
      return undefined
    }
    const stalled = now - this.#since
    if (stalled < STALLED_MS) return undefined
    return `it has not advanced beyond message ${position} for ${Math.round(stalled / 1_000)} s, although ${lag} more are stored`
  }
}

export interface AuditRunning extends AsyncDisposable {
  /** Stops reading, and waits at most `ms` milliseconds for writes in progress. */
  drain(ms?: number): Promise<void>
  /** Settles when the audit has stopped, including after its connection closed for good. */
  readonly closed: Promise<void>
  stats(): AuditStats
  /** Returns the statistics and further metrics for Prometheus. */
  metrics(): Registry[]
  /** Returns the current health. */
  health(): HealthReport
  /** Settles when everything stored so far has been read and its records are written. For tests and `rebuild`. */
  settled(): Promise<void>
}

const SWEEP_INTERVAL_MS = 500
/** Pause between two batches of records, in ms. Limits writing to 400 records a second, so that a backlog is not written while it still changes. */
const BATCH_INTERVAL_MS = 25
const CHECK_INTERVAL_MS = 1_000
const DRAIN_TIMEOUT_MS = 10_000
const SETTLE_POLL_MS = 20

/** What an audit has opened at its start. */
interface OpenedAudit {
  reader: StreamSubscription
  /** Archives the segments that were already full at the start. */
  behind: CatchUp
  back: RollbackDetector
  answering: Consumption | undefined
  watch: AsyncDisposable
  dead: AsyncDisposable | undefined
  deleter: Deleter | undefined
  removal: RemovalTasks | undefined
  finder: IdIndex
  rebuild: boolean
}

/** An audit that is running: owns its timers and its shutdown. */
export class RunningAudit {
  readonly #parts: AuditComponents
  readonly #opened: OpenedAudit
  readonly closed: Promise<void>
  #resolveClosed: () => void = () => undefined
  #draining: Promise<void> | undefined
  #timers: Disposable[] = []
  #last = 0
  #caughtUp = false

  readonly #stall = new StallDetector()

  constructor(parts: AuditComponents, opened: OpenedAudit) {
    this.#parts = parts
    this.#opened = opened
    this.closed = new Promise((resolve) => {
      this.#resolveClosed = resolve
    })
    this.#every(SWEEP_INTERVAL_MS, () => this.#sweep())
    this.#writeLater(SWEEP_INTERVAL_MS)
    this.#every(CHECK_INTERVAL_MS, () => void this.#look())
    this.#every(CHECK_INTERVAL_MS, () => void this.#parts.expiries.look())
    this.#every(CHECK_INTERVAL_MS, () => void this.#parts.logging.look())
    this.#every(CHECK_INTERVAL_MS, () => void opened.deleter?.look())
    this.#every(CHECK_INTERVAL_MS, () => opened.removal?.look())
    this.#every(CHECK_INTERVAL_MS, () => parts.indexing.follow(opened.finder))
    this.#every(CHECK_INTERVAL_MS, () => parts.indexing.catchUp())
    void opened.reader.closed.then(() => this.drain(0))
    void opened.reader.caughtUp.then(() => {
      this.#caughtUp = true
    })
    if (opened.rebuild) void opened.reader.caughtUp.then(() => this.#endRebuild())
  }

  /** Settles with a description of the loss when the stream has rolled back behind the read position; the audit must then be restarted. */
  get rolledBack(): Promise<string> {
    return this.#opened.back.found
  }

  /** Reason why newly stored messages would not be read; `undefined` if they are read. */
  get trouble(): string | undefined {
    const { reader } = this.#opened
    if (reader.trouble !== undefined) return reader.trouble
    const stalled = this.#stall.trouble(this.stats(), this.#parts.deps.clock.monotonic())
    if (stalled !== undefined) return stalled
    return this.#caughtUp ? undefined : `it is still reading the stream, ${this.stats().lag} messages behind`
  }

  /** Reason why questions do not reach this process; `undefined` if they do. */
  get answerTrouble(): string | undefined {
    return this.#opened.answering?.trouble
  }

  get archiveTrouble(): string | undefined {
    return this.#parts.archiver.trouble ?? this.#opened.deleter?.trouble ?? this.#opened.removal?.trouble
  }

  get inboxTrouble(): string | undefined {
    return this.#parts.inbox.trouble
  }

  metrics(): Registry[] {
    return [this.#parts.ended.registry, auditMetrics(this.stats())]
  }

  stats(): AuditStats {
    const { projector, records, archiver, violations, schemas } = this.#parts
    const { position } = projector
    const { deleter } = this.#opened
    return {
      position,
      lag: Math.max(0, this.#last - position),
      open: projector.open,
      requests: projector.notes.size,
      kv_writes: records.writes,
      segments: archiver.segments,
      violations: violations.published,
      schema_unchecked: schemas.unchecked,
      deleted: deleter?.segments.deleted ?? 0,
      deleted_to: deleter?.next ?? 0,
      undeleted: deleter?.waiting ?? 0,
    }
  }

  async settled(): Promise<void> {
    const { deps, projector, records, reloader, violations, schemas, archiver, inbox, acknowledged } = this.#parts
    const { last } = await deps.bus.bounds()
    const isBusy = () =>
      projector.position < last ||
      this.#opened.behind.whole !== undefined ||
      records.pending > 0 ||
      projector.writing > 0 ||
      reloader.size > 0 ||
      schemas.pending > 0 ||
      violations.lowest !== undefined ||
      inbox.lowest !== undefined ||
      archiver.busy
    while (isBusy() && !this.#draining) await new Promise<void>((done) => deps.clock.after(SETTLE_POLL_MS, done))
    await acknowledged.flush()
  }

  drain(ms = DRAIN_TIMEOUT_MS): Promise<void> {
    this.#draining ??= this.#stop(ms)
    return this.#draining
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.drain()
  }

  async #stop(ms: number): Promise<void> {
    const parts = this.#parts
    const opened = this.#opened
    for (const timer of this.#timers) timer[Symbol.dispose]()
    opened.back[Symbol.dispose]()
    await opened.answering?.drain(ms)
    await Promise.all([
      opened.reader[Symbol.asyncDispose](),
      opened.behind[Symbol.asyncDispose](),
      opened.watch[Symbol.asyncDispose](),
      opened.dead?.[Symbol.asyncDispose](),
      parts.custody[Symbol.asyncDispose](),
    ])
    const flushed = parts.acknowledged.flush()
    // Gives up records that are only being retried; the next process reads their messages again (I4).
    parts.reloader.stop()
    parts.early.stop()
    parts.violations.stop()
    parts.schemas.stop()
    parts.records.stop()
    parts.inbox.stop()
    parts.acknowledged.stop()
    parts.undelivered.stop()
    parts.indexing.stop()
    const begun = Promise.all([
      flushed,
      opened.deleter?.stop(),
      opened.removal?.stop(),
      parts.records.settled(),
      parts.violations.settled(),
      parts.archiver.drain(),
    ])
    let timer: Disposable | undefined
    await Promise.race([begun, new Promise<void>((done) => (timer = parts.deps.clock.after(ms, done)))])
    timer?.[Symbol.dispose]()
    await opened.finder.close()
    parts.deps.log.info(this.stats(), 'audit stopped')
    this.#resolveClosed()
  }

  /** Server time in ms. While the reader lags, returns the time of the last message read instead, so that passes do not look older than they are. */
  get #now(): number {
    const { projector, deps } = this.#parts
    return projector.position >= this.#last ? deps.clock.now() : projector.time
  }

  #writeLater(ms: number): void {
    this.#once(ms, () => this.#writeLater(this.#parts.projector.writeOpen(this.#now) ? BATCH_INTERVAL_MS : SWEEP_INTERVAL_MS))
  }

  #sweep(): void {
    const { projector, acknowledged, undelivered } = this.#parts
    const now = this.#now
    acknowledged.sweep()
    undelivered.sweep(now)
    projector.sweep(now)
  }

  async #look(): Promise<void> {
    try {
      this.#last = (await this.#parts.deps.bus.bounds()).last
    } catch (error) {
      this.#parts.deps.log.debug({ err: error }, 'the server does not report the end of the stream')
    }
  }

  async #endRebuild(): Promise<void> {
    try {
      await this.settled()
      if (this.#draining) return
      await this.#parts.inbox.markBuilt()
      await this.#parts.manifest.endRebuild()
    } catch (error) {
      this.#parts.deps.log.warn({ err: error }, 'end of the rebuild not recorded; the next start rebuilds again')
    }
  }

  #every(ms: number, run: () => void): void {
    this.#once(ms, () => {
      run()
      this.#every(ms, run)
    })
  }

  #once(ms: number, run: () => void): void {
    const armed = this.#parts.deps.clock.after(ms, () => {
      if (this.#draining) return
      this.#timers = this.#timers.filter((timer) => timer !== armed)
      run()
    })
    this.#timers.push(armed)
  }
}
