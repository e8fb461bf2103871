import type { AckDecision, ConsumerStanding, Delivery, StoredMessage } from '@passover/bus'
import { withTimeout } from '@passover/core'
import type { RequestFact } from '@passover/schemas'
import type { Context } from '../admission/context.js'
import { JobPool } from '../runtime/job-pool.js'
import type { Timekeeper } from '../timekeeper/timekeeper.js'

/** What came of a request out of turn is remembered until the durable delivers it too; of more than so many, the newest. */
const MAX_REMEMBERED = 20_000
/** At most so many requests that were not delivered are looked for at a time. */
const MAX_SKIPPED = 1_000
/** Pairs that have asked within this ask at the same time. */
const RECENT_MS = 2_000

/**
 * Admits out of turn what would wait behind the backlog of others (I9, decision 64). The timekeeper's fold knows what waits; each is read whole
 * by its sequence and handled as if it had been delivered. The guard of its journal makes it harmless that others do the same,
 * and the durable still delivers it: what is begun by then is only acknowledged.
 */
export class FairScheduler {
  readonly #context: Context
  readonly #timekeeper: Timekeeper
  readonly #handle: (delivery: Delivery) => Promise<AckDecision>
  readonly #pool: JobPool
  /** Whether each is settled, in the order in which they were begun. */
  readonly #early = new Map<number, Promise<boolean>>()
  /** Requests that the durable seemed past at the last look, without an answer. */
  #suspects: ReadonlySet<number> = new Set()
  #crowded = false
  #stopped = false

  constructor(context: Context, timekeeper: Timekeeper, handle: (delivery: Delivery) => Promise<AckDecision>) {
    this.#context = context
    this.#timekeeper = timekeeper
    this.#handle = handle
    this.#pool = new JobPool(context.options.out_of_turn)
    timekeeper.onRequest = () => this.#look()
  }

  /**
   * How many requests may be handled in turn: few while there is a crowd of several pairs, so that each one's way is short; and while more wait than
   * could be in hand, also of one pair, for the next one to ask must not find all of those before it.
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

  /** The durable delivers it. Whether it is settled already; undefined: nothing was done about it out of turn. */
  delivered(sequence: number): Promise<boolean> | undefined {
    this.#timekeeper.backlog?.reach(sequence)
    if (this.#early.size === 0) return undefined
    const early = this.#early.get(sequence)
    if (early) this.#early.delete(sequence)
    return early
  }

  /**
   * Admits what the durable will never deliver: the server that leads it delivers from its own copy of the stream, which can lack requests. Such a
   * request has no answer although everything that was delivered is acknowledged, beyond it or to the end. Whoever only reads late finds it answered:
   * so the request must be suspect at two looks, and admitting twice is harmless.
   */
  lookForSkipped({ pending, unacknowledged, settled }: ConsumerStanding): void {
    const { deps, options } = this.#context
    const isIdle = pending === 0 && unacknowledged === 0
    const waiting = this.#timekeeper.unansweredBefore(deps.clock.now() - options.look_after_ms, MAX_SKIPPED)
    const suspects = new Set<number>()
    for (const fact of waiting) {
      if (this.#stopped || !(isIdle || fact.sequence <= settled)) continue
      if (!this.#suspects.has(fact.sequence)) suspects.add(fact.sequence)
      else {
        deps.log.warn({ sequence: fact.sequence }, 'request was not delivered; admitting it as the stream has it')
        this.#begin(fact)
      }
    }
    this.#suspects = suspects
  }

  /** Lets what is under way finish, for at most so long. */
  async drain(ms: number): Promise<void> {
    this.#stopped = true
    this.#timekeeper.onRequest = undefined
    this.#pool.clear()
    await withTimeout(this.#context.deps.clock, ms, this.#pool.idle())
  }

  #look(): void {
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
      this.#look()
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

  /** False: not settled; its turn will come. */
  async #admit({ sequence, time }: RequestFact): Promise<boolean> {
    const { bus, log } = this.#context.deps
    try {
      const stored = await bus.journal.message(sequence)
      if (!stored || stored.time !== time) return false
      const verdict = await this.#handle(asDelivery(stored))
      if (!('ok' in verdict)) return false
      this.#context.stats.out_of_turn++
      return true
    } catch (error) {
      log.debug({ err: error, sequence }, 'not admitted out of turn')
      return false
    }
  }
}

/** Nobody delivered it, so there is nothing to answer. */
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
