import {
  type AckDecision,
  type Bus,
  CONTENT_TYPE,
  type Consumption,
  type Delivery,
  encode,
  NOTIFIER,
  NOTIFIER_DECISIONS,
  NOTIFIER_HELD,
} from '@passover/bus'
import { type Clock, Health, healthLog, passError, type ReturnValidity, tellReconnects, unhealthyIf, watchConnection } from '@passover/core'
import {
  type DeadLetterBody,
  type DecisionFact,
  HEADER,
  type HealthReport,
  type Notice,
  type Step,
  SYSTEM,
  WIRE_VERSION,
} from '@passover/schemas'
import type { Logger } from 'pino'
import { NotificationReader } from './notification-reader.js'
import { type NotifierOptions, type NotifierSettings, notifierOptions } from './options.js'
import { causedBy, journalBefore, mayBeTold } from './parse-notifications.js'
import { DeliveryLane } from './sharing/delivery-lane.js'
import type { Sender } from './sharing/shared-slots.js'
import { DeliveredCache } from './webhook/delivered-cache.js'
import { nextRetry } from './webhook/retry.js'
import { type PostResult, postWebhook } from './webhook/webhook-client.js'

export interface NotifierDeps {
  /** Connected as `passover`. */
  bus: Bus
  clock: Clock
  log: Logger
}

/** A running notifier. */
export interface Notifier extends AsyncDisposable {
  /** Stops taking deliveries, and waits at most `ms` milliseconds for posts in progress. */
  drain(ms?: number): Promise<void>
  readonly closed: Promise<void>
  readonly counts: { posted: number; failed: number; given_up: number }
  /** Returns the current health. */
  health(): HealthReport
}

const RETRY_UNREADABLE: AckDecision = { retry: true, delay_ms: 1_000 }
/** Divisor of the concurrency for held passes and for decisions, which are rarer than returns. */
const MINOR_SHARE_DIVISOR = 4

/** The message that a notice is about. */
type NotifiedStep = Pick<Step, 'key' | 'sequence'>

/** Starts posting notices for everything stored since the notifier first started. Any number of notifiers may run; they share the work. */
export async function startNotifier(deps: NotifierDeps, settings: NotifierSettings): Promise<Notifier> {
  const options = notifierOptions.parse(settings)
  await deps.bus.ensureNotifiers()
  const running = new RunningNotifier(deps, options)
  await running.begin()
  deps.log.info({ url: new URL(options.url).origin }, 'notifier started')
  return running
}

class RunningNotifier implements Notifier {
  readonly #deps: NotifierDeps
  readonly #options: NotifierOptions
  readonly counts = { posted: 0, failed: 0, given_up: 0 }
  readonly #delivered = new DeliveredCache()
  readonly #reads: NotificationReader
  readonly #lanes: DeliveryLane[] = []
  #consumptions: Consumption[] = []
  /** Reason why the receiver did not take the last notice. */
  #refused: string | undefined
  readonly #health: Health

  constructor(deps: NotifierDeps, options: NotifierOptions) {
    this.#deps = deps
    this.#options = options
    this.#reads = new NotificationReader(deps.bus, { id_window_ms: options.id_window_ms })
    this.#health = new Health({ process: 'notifier', clock: deps.clock, onChange: healthLog(deps.log) })
  }

  get closed(): Promise<void> {
    return Promise.all(this.#consumptions.map(({ closed }) => closed)).then(() => undefined)
  }

  async begin(): Promise<void> {
    const { concurrency } = this.#options
    const few = Math.ceil(concurrency / MINOR_SHARE_DIVISOR)
    for (const [durable, most] of [
      [NOTIFIER, concurrency],
      [NOTIFIER_HELD, few],
      [NOTIFIER_DECISIONS, few],
    ] as const)
      this.#consumptions.push(await this.#consume(durable, most))
    watchConnection(this.#health, this.#deps.bus)
    tellReconnects(this.#health, this.#deps.bus)
    this.#health.watch('consumer', 'needed', () => unhealthyIf(this.#consumptions.map(({ trouble }) => trouble).find(Boolean)))
    this.#health.watch('receiver', 'told', () => unhealthyIf(this.#refused))
    this.#health.begin()
  }

  health(): HealthReport {
    return this.#health.report()
  }

  async drain(ms?: number): Promise<void> {
    this.#health.stop()
    for (const lane of this.#lanes) lane.close()
    await Promise.all(this.#consumptions.map((one) => one.drain(ms)))
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.drain()
  }

  #consume(durable: string, places: number): Promise<Consumption> {
    const lane = new DeliveryLane(places, { judges: durable === NOTIFIER })
    this.#lanes.push(lane)
    const onRestored = (what: string) => this.#health.did('consumer', what)
    return this.#deps.bus.consume(durable, (delivery) => this.#handle(delivery, lane), { concurrency: lane.concurrency, onRestored })
  }

  /** Handles a delivery. One beyond its agent's share is delivered again later, and delays no other agent's meanwhile (I5). */
  async #handle(delivery: Delivery, lane: DeliveryLane): Promise<AckDecision> {
    const fact = this.#deps.bus.subjects.toFact(delivery)
    if (!mayBeTold(fact)) return { ok: true }
    const known = lane.rootOf(delivery)
    if (known !== undefined && lane.posting.isFull(known)) return await this.#leave(delivery, fact, { root: known, lane })
    const sender = causedBy(fact)
    const counted = sender.of === undefined ? 'counts' : await this.#judged(delivery, fact, { sender, lane })
    if (typeof counted === 'object') return counted
    const read = counted === 'nothing' ? [] : await lane.reading.run(sender, () => this.#noticesOf(fact, counted))
    // A return that a worker stored may not count at all, so it is not worth a dead letter.
    if (!read && sender.of !== undefined) return this.#leaveUnjudged(delivery, sender, lane)
    if (!read) return await this.#leave(delivery, fact, { root: sender.agent, lane })
    if (!Array.isArray(read)) return read
    const root = read[0]?.root.originator
    if (root === undefined) {
      if (counted !== 'counts') lane.uncounted.note(sender.agent, delivery)
      return { ok: true }
    }
    lane.meter.note(root, delivery)
    const told = await lane.posting.run({ agent: root }, () => this.#tell(delivery, fact, read))
    if (told && 'ok' in told) lane.over(delivery)
    else lane.comesAgain(delivery, root)
    return told ?? (await this.#leave(delivery, fact, { root, lane }))
  }

  /** Judges a return that a worker stored; returns a decision about the delivery if it cannot be judged now. */
  async #judged(
    delivery: Delivery,
    fact: Step | DecisionFact,
    { sender, lane }: { sender: Sender; lane: DeliveryLane },
  ): Promise<ReturnValidity | AckDecision> {
    const isIgnored = () => isUnguarded(fact) && lane.uncounted.floods(sender.agent, delivery)
    if (isIgnored()) return 'nothing'
    // Other returns of the same worker may have been judged while this one waited for its turn.
    const judge = async () => (isIgnored() ? 'nothing' : await this.#unlessUnreadable(fact, () => this.#reads.judged(fact)))
    const floods = lane.uncounted.floods(sender.agent, delivery)
    return (await (floods ? lane.judgingFloods : lane.judging).run(sender, judge)) ?? this.#leaveUnjudged(delivery, sender, lane)
  }

  /**
   * Handles a return of a worker that already has its full share of deliveries: drops a repeated delivery if the worker floods and other messages
   * may be waiting behind it at the server.
   */
  #leaveUnjudged(delivery: Delivery, { agent }: Sender, lane: DeliveryLane): AckDecision {
    const { delivered, pending = 0 } = delivery
    const drops = delivered > 1 && pending > 0 && lane.uncounted.floods(agent, delivery)
    return drops ? { ok: true } : this.#again()
  }

  /** Returns the notices of a message, or a decision about its delivery if they cannot be read now. */
  #noticesOf(fact: Step | DecisionFact, validity: ReturnValidity): Promise<Notice[] | AckDecision> {
    return this.#unlessUnreadable(fact, async () => (await this.#reads.noticesOf(fact, validity)) ?? RETRY_UNREADABLE)
  }

  async #unlessUnreadable<T>({ key }: Pick<Step, 'key'>, read: () => Promise<T>): Promise<T | AckDecision> {
    try {
      return await read()
    } catch (error) {
      this.#deps.log.warn({ ...key, err: error }, 'pass cannot be read')
      return RETRY_UNREADABLE
    }
  }

  /**
   * Handles a delivery of an agent that already has its full share: gives it up if it was delivered many times, its agent floods, and other messages
   * may be waiting behind it at the server.
   */
  async #leave(delivery: Delivery, step: NotifiedStep, { root, lane }: { root: string; lane: DeliveryLane }): Promise<AckDecision> {
    const { delivered, pending = 0 } = delivery
    lane.meter.note(root, delivery)
    const lasts = delivered >= this.#options.least_tries && this.#refused === undefined
    if (!lasts || pending === 0 || !lane.meter.floods(root, delivery)) return this.#again()
    if (!(await this.#bury(step, `notification not sent after ${delivered} deliveries: ${root} has too many pending notifications`)))
      return this.#again()
    this.#deps.log.warn({ ...step.key, root, tries: delivered }, 'notification dropped: its agent has too many')
    lane.over(delivery)
    this.counts.given_up++
    return { ok: true }
  }

  /** Asks for another delivery after a random delay, so that deliveries do not all come back at once. */
  #again(): AckDecision {
    return { retry: true, delay_ms: this.#options.first_wait_ms * (0.5 + Math.random()) }
  }

  /** Posts the notices. The delivery is acknowledged when every notice was taken or given up (I1). */
  async #tell(delivery: Delivery, step: NotifiedStep, notices: Notice[]): Promise<AckDecision> {
    for (const notice of notices) {
      if (this.#delivered.has(delivery.sequence, notice.id)) continue
      const posted = await postWebhook(this.#options, notice, Date.now())
      if (!posted.ok) return await this.#failed(delivery, step, { notice, posted })
      this.#refused = undefined
      this.counts.posted++
      // A single notice need not be remembered: the delivery is acknowledged right after it.
      if (notices.length > 1) this.#delivered.add(delivery.sequence, notice.id)
    }
    this.#delivered.delete(delivery.sequence)
    return { ok: true }
  }

  async #failed(
    delivery: Delivery,
    step: NotifiedStep,
    of: { notice: Notice; posted: Extract<PostResult, { ok: false }> },
  ): Promise<AckDecision> {
    const { notice, posted } = of
    this.counts.failed++
    this.#refused = `the webhook does not accept notifications: ${posted.why}`
    const age = this.#deps.clock.now() - delivery.time
    const next = nextRetry(delivery.delivered, age, { ...this.#options, asked_ms: posted.retry_after_ms })
    if ('wait_ms' in next) {
      this.#deps.log.warn(
        { id: notice.id, tries: delivery.delivered, why: posted.why, again_ms: next.wait_ms },
        'notification not accepted',
      )
      return { retry: true, delay_ms: next.wait_ms }
    }
    this.#deps.log.error({ id: notice.id, tries: delivery.delivered, why: posted.why }, 'notification dropped')
    if (!(await this.#bury(step, `webhook did not accept the notification after ${delivery.delivered} tries: ${posted.why}`))) {
      return { retry: true, delay_ms: this.#options.longest_wait_ms }
    }
    this.counts.given_up++
    this.#delivered.delete(delivery.sequence)
    return { ok: true }
  }

  /** Stores a notice that was given up as a dead letter of its pass. Returns false if that failed. */
  async #bury(step: NotifiedStep, why: string): Promise<boolean> {
    const { bus } = this.#deps
    const body: DeadLetterBody = { v: WIRE_VERSION, sequence: step.sequence, error: passError('E040', why) }
    const outcome = await bus.publish({
      subject: bus.subjects.event(step.key, 'dead_letter', SYSTEM),
      headers: { [HEADER.id]: step.key.id, [HEADER.contentType]: CONTENT_TYPE.msgpack },
      data: encode(body),
    })
    return outcome.kind === 'stored'
  }
}

/**
 * True if a return does not say after which step of its pass it was stored. Such returns of a worker that floods are not judged, because that would
 * take too long.
 */
function isUnguarded(fact: Step | DecisionFact): boolean {
  return fact.type === 'step' && journalBefore(fact) === undefined
}
