import type { AckDecision, ConsumerState, Delivery, StoredMessage } from '@passover/bus'
import { withTimeout } from '@passover/core'
import type { RequestFact } from '@passover/schemas'
import type { Context } from '../admission/context.js'
import { JobPool } from '../runtime/job-pool.js'
import type { Timekeeper } from '../timekeeper/timekeeper.js'

/** Maximum number of out-of-turn results kept until the durable consumer delivers the same request. Beyond it, the oldest are dropped. */
const MAX_REMEMBERED = 20_000
/** Maximum number of skipped requests looked for at a time. */
const MAX_SKIPPED = 1_000
/** Milliseconds after the last change from one pair to another for which both pairs count as active. */
const RECENT_MS = 2_000

/**
 * Admits requests out of turn that would otherwise wait behind the backlog of other pairs (I9, decision 64). Takes waiting requests from the
 * timekeeper's fold, reads each one by its sequence, and handles it as if it had been delivered. Other
 * replicas may do the same: the guard of the journal prevents a second admission. The durable consumer still delivers the request later; if its
 * journal has begun by then, it is only acknowledged.
 */
export class FairScheduler {
  readonly #context: Context
  readonly #timekeeper: Timekeeper
  readonly #handle: (delivery: Delivery) => Promise<AckDecision>
  readonly #pool: JobPool
  /** For each request started out of turn, resolves to true if it was settled. In the order in which they were started. */
  readonly #early = new Map<number, Promise<boolean>>()
  /** Requests without an answer that the durable consumer appeared to have skipped at the last check. */
  #suspects: ReadonlySet<number> = new Set()
  #crowded = false
  #stopped = false

  constructor(context: Context, timekeeper: Timekeeper, handle: (delivery: Delivery) => Promise<AckDecision>) {
    this.#context = context
    this.#timekeeper = timekeeper
    this.#handle = handle
    this.#pool = new JobPool(context.options.out_of_turn)
    timekeeper.onRequest = () => this.#startNext()
  }

  /**
   * Maximum number of requests to handle in turn. It is low while several pairs compete, so that each waits behind few others. It is also low while
   * more requests wait than could be in progress, even from one pair, so that the next pair does not have to wait for all of them.
   */
  get concurrency(): number {
    const { concurrency, concurrency_crowded } = this.#context.options
    const unanswered = this.#timekeeper.unanswered
    const waiting = this.#timekeeper.backlog?.size ?? 0
    if (waiting > concurrency || (unanswered > 2 * concurrency_crowded && this.#isMixed)) this.#crowded = true
    else if (unanswered < concurrency_crowded || (waiting < concurrency / 2 && !this.#isMixed)) this.#crowded = false
    return this.#crowded ? Math.min(concurrency, concurrency_crowded) : concurrency
  }

  get #isMixed(): boolean {
    const mixed_at = this.#timekeeper.backlog?.mixed_at ?? Number.NEGATIVE_INFINITY
    return this.#context.deps.clock.now() - mixed_at < RECENT_MS
  }

  /**
   * Notes that the durable consumer delivers this request. Returns whether it was settled out of turn, or `undefined` if it was not handled out of
   * turn.
   */
  delivered(sequence: number): Promise<boolean> | undefined {
    this.#timekeeper.backlog?.reach(sequence)
    if (this.#early.size === 0) return undefined
    const early = this.#early.get(sequence)
    if (early) this.#early.delete(sequence)
    return early
  }

  /**
   * Admits requests that the durable consumer will never deliver: the server that leads it delivers from its own copy of the stream, which can lack
   * requests. Such a request has no answer although the consumer has nothing left to deliver, or has everything up to a later sequence acknowledged.
   * A request may also look skipped because the timekeeper's fold lags behind its answer, so it must look skipped at two checks in a row. Admitting
   * it twice is harmless.
   */
  lookForSkipped({ pending, unacknowledged, settled }: ConsumerState): void {
    const { deps, options } = this.#context
    if (this.#stopped) return
    const isIdle = pending === 0 && unacknowledged === 0
    const waiting = this.#timekeeper.unansweredBefore(deps.clock.now() - options.look_after_ms, MAX_SKIPPED)
    const suspects = new Set<number>()
    const skipped: RequestFact[] = []
    for (const fact of waiting) {
      if (!isIdle && fact.sequence > settled) continue
      if (this.#suspects.has(fact.sequence)) skipped.push(fact)
      else suspects.add(fact.sequence)
    }
    for (const fact of skipped) this.#begin(fact)
    if (skipped.length > 0)
      deps.log.warn(
        { requests: skipped.length, first: skipped[0]?.sequence },
        'requests skipped by their consumer; admitting them from the stream',
      )
    this.#suspects = suspects
  }

  /** Waits at most `ms` milliseconds for admissions in progress and drops queued ones. */
  async drain(ms: number): Promise<void> {
    this.#stopped = true
    this.#timekeeper.onRequest = undefined
    this.#pool.clear()
    await withTimeout(this.#context.deps.clock, ms, this.#pool.idle())
  }

  #startNext(): void {
    const { ahead, out_of_turn } = this.#context.options
    while (!this.#stopped && this.#pool.running < out_of_turn) {
      const next = this.#timekeeper.backlog?.take(ahead)
      if (!next) return
      this.#begin(next.fact)
    }
  }

  #begin(fact: RequestFact): void {
    let settle: (settled: boolean) => void = () => undefined
    this.#remember(fact.sequence, new Promise((resolve) => (settle = resolve)))
    this.#pool.add(async () => {
      settle(await this.#admit(fact))
      this.#startNext()
    })
  }

  #remember(sequence: number, early: Promise<boolean>): void {
    this.#early.set(sequence, early)
    if (this.#early.size <= MAX_REMEMBERED) return
    for (const oldest of this.#early.keys()) {
      this.#early.delete(oldest)
      return
    }
  }

  /** Returns false if the request was not settled; the durable consumer delivers it later. */
  async #admit({ sequence, time }: RequestFact): Promise<boolean> {
    const { bus, log } = this.#context.deps
    try {
      const stored = await bus.journal.message(sequence)
      if (!stored || stored.time !== time) return false
      const ackDecision = await this.#handle(asDelivery(stored))
      if (!('ok' in ackDecision)) return false
      this.#context.stats.out_of_turn++
      return true
    } catch (error) {
      log.debug({ err: error, sequence }, 'request not admitted out of order')
      return false
    }
  }
}

/** Wraps a stored message as a delivery. The server did not deliver it, so acknowledgments do nothing. */
function asDelivery({ subject, sequence, time, headers, data }: StoredMessage): Delivery {
  const nothing = () => undefined
  return {
    subject,
    sequence,
    time,
    headers,
    data,
    delivered: 1,
    consumer_sequence: 0,
    ack: nothing,
    working: nothing,
    nak: nothing,
    term: nothing,
  }
}
