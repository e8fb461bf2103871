import type { Delivery, PullEnd, WorkSource } from '@passover/bus'
import type { Clock } from '@passover/core'
import { PRIORITIES, type Priority } from '@passover/schemas'
import { endTrouble, hasBacklog, makeLane, type PriorityLane, reservedBy, troubleOf } from './priority-lane.js'
import { WeightedRoundRobin } from './weighted-round-robin.js'

/** Milliseconds that a pull for an idle queue waits at the server. */
const PARKED_MS = 5_000
/** Milliseconds that a pull of several deliveries waits. It is shorter, because the pull reserves places that other queues could use. */
const LARGE_PARKED_MS = 1_000
/** Share of used places above which freed places are refilled in batches, after `BATCH_WAIT_MS`. */
const BUSY_RATIO = 0.75
/** An empty answer that arrives within this many milliseconds means that the server refused the pull. */
const REFUSED_WITHIN_MS = 100
const BATCH_WAIT_MS = 10
const WAIT_AFTER: Record<PullEnd, number> = { full: 0, empty: 0, gone: 1_000, failed: 250 }
/** Number of deliveries that may wait or be in transit beyond the free places. */
const SPARE_DELIVERIES = 2

export interface WorkPullerOptions {
  clock: Clock
  sources: Record<Priority, WorkSource>
  concurrency: number
  /** Starts a delivery. The caller calls `finished()` when its place is free again. */
  start: (delivery: Delivery, priority: Priority) => void
  /** Called for each delivery on arrival, before it starts or waits. */
  arrived: (delivery: Delivery, priority: Priority) => void
  /** Called if the consumer does not exist, so that cached data about it is discarded. */
  gone: (priority: Priority) => void
  /** Returns false if first deliveries must wait until `opened` is called. No work is requested meanwhile. */
  open?: () => boolean
  /** Returns true if a delivery may start although `opened` was not called. */
  exempt?: (delivery: Delivery) => boolean
}

/**
 * Pulls work from the queues of the three priorities, by weight (docs/architecture/worker.md#taking-work). From a queue with a backlog it requests as
 * many deliveries as it has turns, without waiting. An idle queue has a waiting pull. The waiting pull of the last active queue is large, so that a
 * burst of work needs no round trips.
 */
export class WorkPuller {
  readonly #options: WorkPullerOptions
  readonly #lanes: Record<Priority, PriorityLane>
  readonly #pulling = new WeightedRoundRobin()
  readonly #starting = new WeightedRoundRobin()
  #lastActive: Priority = 'medium'
  #running = 0
  #stopped = false
  #kicked = false
  #timer: Disposable | undefined
  #timerAt = 0
  #batchAt: number | undefined

  constructor(options: WorkPullerOptions) {
    this.#options = options
    const { high, medium, low } = options.sources
    this.#lanes = { high: makeLane(high), medium: makeLane(medium), low: makeLane(low) }
  }

  get running(): number {
    return this.#running
  }
  /** Deliveries that wait for a free place, in all queues. */
  get held(): Delivery[] {
    return PRIORITIES.flatMap((priority) => this.#lanes[priority].held)
  }
  get outstanding(): number {
    return PRIORITIES.reduce((sum, priority) => sum + this.#lanes[priority].outstanding, 0)
  }

  /** Reason why no work can be taken from some queue now, or `undefined`. */
  get trouble(): string | undefined {
    const now = this.#options.clock.monotonic()
    for (const priority of PRIORITIES) {
      const trouble = troubleOf(this.#lanes[priority], now)
      if (trouble !== undefined) return trouble
    }
    return undefined
  }

  begin(): void {
    this.#kick()
  }

  /** Called when a place is free again. */
  finished(): void {
    this.#running -= 1
    this.#startHeld()
    this.#kick()
  }

  /** Called when waiting deliveries may start. */
  opened(): void {
    this.#startHeld()
    this.#kick()
  }

  /** Removes a waiting delivery. Returns false if it is not waiting. */
  drop(delivery: Delivery): boolean {
    for (const priority of PRIORITIES) {
      const at = this.#lanes[priority].held.indexOf(delivery)
      if (at >= 0) return this.#lanes[priority].held.splice(at, 1).length > 0
    }
    return false
  }

  /** Stops pulling. Waiting deliveries still start as places become free. */
  async stop(): Promise<void> {
    this.#stopped = true
    this.#timer?.[Symbol.dispose]()
    this.#timer = undefined
    await Promise.all(PRIORITIES.map((priority) => this.#lanes[priority].source[Symbol.asyncDispose]()))
  }

  #arrive(priority: Priority, delivery: Delivery): void {
    this.#options.arrived(delivery, priority)
    this.#lastActive = priority
    this.#lanes[priority].careful = delivery.delivered > 1
    if (this.#running < this.#options.concurrency && this.#mayStart(delivery)) this.#start(delivery, priority)
    else this.#lanes[priority].held.push(delivery)
    this.#kick()
  }

  get #isOpen(): boolean {
    return this.#options.open?.() ?? true
  }

  #mayStart(delivery: Delivery): boolean {
    return this.#isOpen || delivery.delivered > 1 || this.#options.exempt?.(delivery) === true
  }

  #startHeld(): void {
    while (this.#running < this.#options.concurrency) {
      const priority = this.#starting.next((one) => this.#lanes[one].held.some((delivery) => this.#mayStart(delivery)))
      if (!priority) return
      const { held } = this.#lanes[priority]
      const [next] = held.splice(
        held.findIndex((delivery) => this.#mayStart(delivery)),
        1,
      )
      if (next) this.#start(next, priority)
    }
  }

  #start(delivery: Delivery, priority: Priority): void {
    this.#running += 1
    this.#options.start(delivery, priority)
  }

  /** Schedules one refill for all deliveries that arrive in the same chunk from the socket. */
  #kick(): void {
    if (this.#kicked || this.#stopped) return
    this.#kicked = true
    queueMicrotask(() => {
      this.#kicked = false
      this.#refill()
    })
  }

  #refill(): void {
    if (this.#stopped || !this.#isOpen) return
    const now = this.#options.clock.monotonic()
    const used = this.#running + this.held.length + PRIORITIES.reduce((sum, priority) => sum + reservedBy(this.#lanes[priority]), 0)
    const free = this.#options.concurrency - used
    if (free > 0 && PRIORITIES.some((priority) => hasBacklog(this.#lanes[priority], now)) && this.#batchIsDue(used, now))
      this.#pullBacklog(free, now)
    for (const priority of PRIORITIES) this.#park(priority, Math.max(0, free), now)
    for (const priority of PRIORITIES) if (this.#lanes[priority].not_before > now) this.#wakeAt(this.#lanes[priority].not_before, now)
  }

  /**
   * Returns true if the free places should be filled now. A few free places do not justify a pull each, so it waits up to `BATCH_WAIT_MS` for
   * more.
   */
  #batchIsDue(used: number, now: number): boolean {
    const due = used < this.#options.concurrency * BUSY_RATIO || (this.#batchAt !== undefined && now >= this.#batchAt)
    if (due) {
      this.#batchAt = undefined
      return true
    }
    this.#batchAt ??= now + BATCH_WAIT_MS
    this.#wakeAt(this.#batchAt, now)
    return false
  }

  #pullBacklog(free: number, now: number): void {
    const shares = this.#pulling.share(free, (priority) => hasBacklog(this.#lanes[priority], now))
    for (const priority of PRIORITIES)
      if (shares[priority] > 0) this.#pull(priority, this.#lanes[priority].careful ? 1 : shares[priority], 0)
  }

  /** Keeps a waiting pull at a queue that probably has no work now. */
  #park(priority: Priority, free: number, now: number): void {
    const lane = this.#lanes[priority]
    if (lane.backlog || now < lane.not_before) return
    const wanted = priority === this.#lastActive && !lane.careful ? Math.max(1, Math.floor(free / 2)) : 1
    if (lane.pulls > 0 && lane.outstanding >= Math.ceil(wanted / 2)) return
    const spare = this.#options.concurrency - this.#running + SPARE_DELIVERIES - this.held.length - this.outstanding
    const batch = Math.min(wanted - lane.outstanding, spare)
    if (batch > 0) this.#pull(priority, batch, batch > 1 ? LARGE_PARKED_MS : PARKED_MS)
  }

  #pull(priority: Priority, batch: number, expires_ms: number): void {
    const lane = this.#lanes[priority]
    let left = batch
    lane.outstanding += batch
    lane.pulls += 1
    lane.pulled_at = this.#options.clock.monotonic()
    const onDelivery = (delivery: Delivery): void => {
      if (left > 0) {
        left -= 1
        lane.outstanding -= 1
      }
      this.#arrive(priority, delivery)
    }
    const begun = this.#options.clock.monotonic()
    const over = (end: PullEnd): void => {
      // A waiting pull that returns empty immediately was rejected (too many are waiting). It must not be repeated immediately.
      const away = end === 'empty' && expires_ms > 0 && left === batch && this.#options.clock.monotonic() - begun < REFUSED_WITHIN_MS
      lane.outstanding -= left
      left = 0
      lane.pulls -= 1
      this.#ended(priority, away ? 'failed' : end)
    }
    lane.source.pull({ batch, expires_ms }, onDelivery).then(over, () => over('failed'))
  }

  #ended(priority: Priority, end: PullEnd): void {
    const lane = this.#lanes[priority]
    if (end === 'full') lane.backlog = lane.pulls === 0
    else lane.backlog = false
    lane.gone = end === 'gone' ? lane.gone + 1 : 0
    lane.trouble = endTrouble(end, priority, lane.gone)
    if (end === 'gone') this.#options.gone(priority)
    const wait = WAIT_AFTER[end]
    if (wait > 0) lane.not_before = this.#options.clock.monotonic() + wait
    this.#kick()
  }

  #wakeAt(at: number, now: number): void {
    if (this.#timer && this.#timerAt <= at) return
    this.#timer?.[Symbol.dispose]()
    this.#timerAt = at
    this.#timer = this.#options.clock.after(Math.max(1, at - now), () => {
      this.#timer = undefined
      this.#kick()
    })
  }
}
