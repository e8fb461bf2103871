/**
 * Stage 4 of a pass, in the worker. In: work that the puller received. Out: its return, and an acknowledged delivery.
 * Begins an attempt (`attempt/begin-attempt.ts`), then runs the handler (`handler/run-handler.ts`). Renews leases, watches deadlines and drains.
 */

import { type Delivery, type IndexedItem, IndexedSet, type LiveSubscription, type ReceivedReturn, type WorkSource } from '@passover/bus'
import { oneLine, PassOverError } from '@passover/core'
import { HEADER, type HealthReport, keyText, type PassKey, type Priority, type Random } from '@passover/schemas'
import { type AttemptContext, type AttemptStart, beginAttempt, type SuspectRank } from '../attempt/begin-attempt.js'
import type { ConsumerAges } from '../attempt/consumer-ages.js'
import { logAttemptEnd } from '../attempt/outcome-log.js'
import { makeRun, type Run, stopRun } from '../attempt/run.js'
import type { WorkerLogger } from '../attempt/worker-events.js'
import type { WorkerContext } from '../handler/handler-pass.js'
import type { Handler } from '../handler/pass.js'
import { type DeliveryAction, runHandler } from '../handler/run-handler.js'
import { viewRules } from '../journal/id-window.js'
import { decodeWork, type WorkContent } from '../messages/decode-work.js'
import { CrashIsolation, type Suspect } from './crash-isolation.js'
import { WorkerHealth } from './health.js'
import type { Heartbeat } from './heartbeat.js'
import { LeaseRenewer } from './lease-renewer.js'
import { WorkPuller } from './pull/work-puller.js'
import { RecentlyEnded } from './recently-ended.js'
import { checkSuperseded, terminateRun, watchRun } from './run-watchdog.js'
import type { AgentContext, Worker } from './start-worker.js'

const SWEEP_MS = 100
const DEFAULT_LEASE_MS = 5_000
/** Milliseconds after which work that this worker cannot read is redelivered. */
const UNREADABLE_RETRY_MS = 1_000
const NONCE_BYTES = 9
/** Milliseconds that a drain waits for handlers that ignore the abort. */
const ABORT_GRACE_MS = 1_000

export interface LoopOptions {
  agent: AgentContext
  handler: Handler
  consumers: ConsumerAges
  sources: Record<Priority, WorkSource>
  concurrency: number
  drainMs: number
  logger: WorkerLogger
  heartbeat: Heartbeat
}

/** A delivery whose attempt is starting or running. */
interface Active extends IndexedItem {
  delivery: Delivery
  key: PassKey
  run?: Run
  /** True once the delivery no longer blocks others in the crash isolation. */
  released?: boolean
  /** Entry in the crash isolation, or `undefined` if the attempt runs beside others. */
  suspect?: Suspect
  /** Event during the start because of which the handler must not run. */
  cancelled?: 'ended' | 'drained'
}

/** A worker. It receives deliveries, begins attempts, runs handlers and acknowledges the deliveries. One periodic sweep handles all timing. */
export class WorkerLoop implements Worker {
  readonly subagent: string
  readonly closed: Promise<void>
  readonly #options: LoopOptions
  readonly #context: WorkerContext
  readonly #attempts: AttemptContext
  readonly #nonce: () => string
  readonly #puller: WorkPuller
  readonly #leases: LeaseRenewer
  readonly #isolation: CrashIsolation
  readonly #health: WorkerHealth
  readonly #active = new IndexedSet<Active>()
  readonly #recentlyEnded = new RecentlyEnded()
  #subscription: LiveSubscription | undefined
  #sweeping: Disposable | undefined
  #draining: Promise<void> | undefined
  #whenIdle: (() => void) | undefined
  #resolveClosed: () => void = () => undefined
  #removeListeners: (() => void)[] = []

  constructor(options: LoopOptions) {
    const { deps, self, window, isolation } = options.agent
    const { logger, heartbeat } = options
    this.#options = options
    this.subagent = deps.bus.identity
    this.#context = { deps, self, logger, agent: this.subagent, rules: viewRules(window, { trust_fences: true }) }
    this.#attempts = { deps, agent: this.subagent, rules: this.#context.rules, consumers: options.consumers }
    this.#nonce = nonces(deps.random)
    this.#leases = new LeaseRenewer(DEFAULT_LEASE_MS, deps.clock.monotonic())
    this.#isolation = isolation ?? new CrashIsolation(deps.clock)
    this.#health = new WorkerHealth({ deps, logger, heartbeat, trouble: () => this.#puller.trouble })
    this.closed = new Promise((resolve) => {
      this.#resolveClosed = resolve
    })
    this.#puller = new WorkPuller({
      clock: deps.clock,
      sources: options.sources,
      concurrency: options.concurrency,
      arrived: (delivery, priority) => {
        options.consumers.onDelivery(priority, delivery)
        this.#leases.hold(delivery)
      },
      start: (delivery, priority) => this.#start(delivery, priority),
      gone: (priority) => options.consumers.forget(priority),
      open: () => !this.#isolation.closed,
      exempt: ({ headers }) => this.#isolation.runs(headers.get(HEADER.parent) ?? ''),
    })
  }

  health(): HealthReport {
    return this.#health.report()
  }

  get running(): number {
    return this.#active.size
  }

  begin(subscription: LiveSubscription): void {
    this.#subscription = subscription
    // No lease was renewed while the connection was lost.
    const removeReconnect = this.#context.deps.bus.onReconnect(() => {
      for (const { run } of this.#active.all()) if (run) void checkSuperseded(this.#context, run, this.#leases)
    })
    const runs = (pass: string) => this.#active.all().some(({ key }) => keyText(key) === pass)
    this.#removeListeners = [removeReconnect, this.#isolation.join({ opened: () => this.#puller.opened(), runs })]
    this.#puller.begin()
    this.#options.heartbeat.tick(this.running)
    this.#scheduleSweep()
    this.#health.begin(this.#options.concurrency)
  }

  drain(ms = this.#options.drainMs): Promise<void> {
    this.#draining ??= this.#drain(ms)
    return this.#draining
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.drain()
  }

  /** Handles a pass of this subagent that the system ended: stops its run, and prevents deliveries of it from starting. */
  onTermination(ending: ReceivedReturn): void {
    const { originator, id } = ending.key
    this.#recentlyEnded.note(ending.key, ending.stored.sequence)
    for (const active of this.#active.all()) {
      if (active.key.id !== id || active.key.originator !== originator) continue
      if (active.run) terminateRun(active.run, ending)
      else this.#cancelStart(active, 'ended')
    }
    for (const delivery of this.#puller.held) {
      const key = this.#keyOf(delivery)
      if (key?.id !== id || key.originator !== originator || !this.#puller.drop(delivery)) continue
      this.#leases.release(delivery)
      delivery.ack()
    }
  }

  #start(delivery: Delivery, priority: Priority): void {
    const key = this.#keyOf(delivery)
    const content = key && decodeWork(delivery, key, priority)
    if (!key || !content || typeof content === 'string') {
      // A message that is not a work step of this subagent is not acknowledged. Work of a later version is negatively acknowledged: another worker
      // may be able to read it. If none can, it becomes a dead letter.
      this.#leases.release(delivery)
      if (key && typeof content === 'string') this.#rejectUnreadable(delivery, { key, why: content })
      queueMicrotask(() => this.#puller.finished())
      return
    }
    const active: Active = { delivery, key, index: 0 }
    this.#active.add(active)
    if (delivery.delivered > 1) active.suspect = this.#isolation.suspect()
    else this.#isolation.begin()
    if (this.#recentlyEnded.has(key, delivery.sequence)) active.cancelled = 'ended'
    this.#leases.shorten(content.control.lease_ms)
    const { max_attempts, timeout_ms } = content.control
    const turn = (rank: SuspectRank) => this.#waitForTurn(active, rank)
    const workDelivery = { key, priority, delivery, max_attempts, timeout_ms, nonce: this.#nonce(), turn }
    const start = beginAttempt(this.#attempts, workDelivery)
    void this.#runAttempt(active, { content, nonce: workDelivery.nonce, start })
  }

  #rejectUnreadable(delivery: Delivery, { key, why }: { key: PassKey; why: string }): void {
    const { sequence } = delivery
    const text = oneLine(`${this.subagent}: the work of ${key.id} from ${key.originator} (sequence ${sequence}) cannot be read: ${why}`)
    this.#context.logger({ kind: 'unread', text, pass: key, sequence })
    delivery.nak(UNREADABLE_RETRY_MS)
  }

  /** Waits for the turn of a suspect pass. A first delivery may also be a suspect, because the server may have forgotten an earlier delivery. */
  #waitForTurn(active: Active, rank: SuspectRank): Promise<boolean> {
    if (!active.suspect) {
      active.suspect = this.#isolation.suspect()
      this.#isolation.end()
    }
    return active.suspect.turn(rank)
  }

  #cancelStart(active: Active, reason: 'ended' | 'drained'): void {
    active.cancelled ??= reason
    active.suspect?.end()
  }

  async #runAttempt(
    active: Active,
    work: { content: WorkContent; nonce: string; start: AttemptStart | Promise<AttemptStart> },
  ): Promise<void> {
    const { faults } = this.#context.deps
    let action: DeliveryAction = 'leave'
    try {
      const start = work.start instanceof Promise ? await work.start : work.start
      if (start.kind === 'ended' || active.cancelled === 'ended') action = 'ack'
      else if (active.cancelled === 'drained' || start.kind === 'hand_back') action = 'hand_back'
      else if (start.kind === 'run') {
        const { key, delivery } = active
        const { content, nonce } = work
        active.run = makeRun({ key, delivery, content, nonce, start, clock: this.#context.deps.clock })
        action = await runHandler(this.#context, active.run, this.#options.handler)
      }
      if (faults && action === 'ack') await faults.at('worker:before-ack', active.key)
    } catch (error) {
      // The output could not be stored, a test injected a fault, or this is a bug. The lease expires and another attempt begins.
      action = 'leave'
      if (active.run) logAttemptEnd(this.#context, active.run, { end: 'gave_up', thrown: error })
    }
    this.#leases.release(active.delivery)
    if (action === 'ack') active.delivery.ack()
    if (action === 'hand_back') active.delivery.nak()
    if (faults && action === 'ack') await faults.at('worker:after-ack', active.key)
    this.#finish(active)
  }

  #finish(active: Active): void {
    if (!this.#remove(active)) return
    this.#puller.finished()
    if (this.#active.size === 0) this.#whenIdle?.()
  }

  /** Removes a delivery. Returns false if it was removed before. */
  #remove(active: Active): boolean {
    if (!this.#active.remove(active)) return false
    this.#releaseIsolation(active)
    return true
  }

  #releaseIsolation(active: Active): void {
    if (active.released) return
    active.released = true
    if (active.suspect) active.suspect.end()
    else this.#isolation.end()
  }

  #keyOf(delivery: Delivery): PassKey | undefined {
    const parsed = this.#context.deps.bus.subjects.parseTrusted(delivery)
    return parsed.kind === 'step' && parsed.step === 'work' && parsed.key.subagent === this.subagent ? parsed.key : undefined
  }

  #scheduleSweep(): void {
    this.#sweeping = this.#context.deps.clock.after(SWEEP_MS, () => {
      this.#sweep()
      this.#scheduleSweep()
    })
  }

  #sweep(): void {
    const { clock } = this.#context.deps
    this.#health.noticeServer()
    this.#options.heartbeat.tick(this.running)
    const { lapsed } = this.#leases.sweep(clock.monotonic())
    if (lapsed) this.#leases.doubtOnly(new Set(this.#active.all().flatMap(({ run, delivery }) => (run ? [delivery] : []))))
    const now = clock.now()
    for (const active of this.#active.all()) {
      const { run } = active
      if (!run) continue
      // Released even if the handler keeps running, because its result has no effect any more.
      if (run.stop === 'ended' || run.stop === 'lost') this.#releaseIsolation(active)
      if (lapsed && this.#leases.isUnsure(run.delivery)) void checkSuperseded(this.#context, run, this.#leases)
      watchRun(this.#context, run, now)
    }
  }

  async #drain(ms: number): Promise<void> {
    this.#health.stop()
    const removed = this.#options.heartbeat.stop()
    await this.#puller.stop()
    await this.#idleWithin(ms)
    for (const active of this.#active.all()) {
      if (active.run)
        stopRun(active.run, 'drain', new PassOverError('E043', 'the worker is shutting down; the work is returned to the queue'))
      else this.#cancelStart(active, 'drained')
    }
    await this.#idleWithin(ABORT_GRACE_MS)
    for (const active of this.#active.all()) {
      this.#leases.release(active.delivery)
      // With a lost lease, the server would take this as a negative acknowledgment of the newer attempt.
      if (active.run?.stop !== 'lost') active.delivery.nak()
      this.#remove(active)
    }
    for (const delivery of this.#puller.held) {
      this.#leases.release(delivery)
      delivery.nak()
    }
    this.#sweeping?.[Symbol.dispose]()
    for (const remove of this.#removeListeners) remove()
    await this.#subscription?.[Symbol.asyncDispose]()
    await removed
    this.#resolveClosed()
  }

  /** Waits until nothing runs, at most `ms` milliseconds. */
  async #idleWithin(ms: number): Promise<void> {
    if (this.#active.size === 0) return
    await new Promise<void>((resolve) => {
      const timer = this.#context.deps.clock.after(ms, resolve)
      this.#whenIdle = () => {
        timer[Symbol.dispose]()
        resolve()
      }
    })
    this.#whenIdle = undefined
  }
}

/** Returns a generator of nonces that identify the steps of one delivery: a random prefix for the process, and a counter for the delivery. */
export function nonces(random: Random): () => string {
  const start = Buffer.from(random.bytes(NONCE_BYTES)).toString('base64url')
  let count = 0
  return () => `${start}.${(count++).toString(36)}`
}
