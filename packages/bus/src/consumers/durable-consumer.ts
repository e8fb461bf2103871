import { type IndexedItem, IndexedSet } from '../collections/indexed-set.js'
import type { Connection } from '../connection/connection.js'
import type { AckDecision, Consumption, Delivery, PullEnd } from '../types/deliveries.js'
import { Puller } from './pull-requests.js'

export interface ConsumeOptions {
  stream: string
  durable: string
  /** Maximum number of concurrent handlers. A function is called again whenever more could be started. */
  concurrency: number | (() => number)
  handler: (delivery: Delivery) => Promise<AckDecision>
  /** Ack wait of the consumer. Running deliveries are renewed every third of it; without it they are not renewed. */
  ack_wait_ms?: number | undefined
  /**
   * Returns the sequence up to which every delivery is acknowledged. A re-created durable starts after it; otherwise it would deliver everything
   * again.
   */
  settled?: (() => Promise<number | undefined>) | undefined
  /** Re-creates the durable after it was lost. */
  restore?: ((from: number | undefined) => Promise<void>) | undefined
  onRestored?: ((what: string) => void) | undefined
}

const PULL_EXPIRES_MS = 5_000
const RETRY_DELAY_MS = 500
/** Delay before re-creating a lost durable. A starting server also reports existing consumers as missing for a while. */
const RESTORE_WAIT_MS = 1_000
const DRAIN_MS = 10_000
/**
 * Pause after the server refused an acknowledgment, or until the next reconnect: without permission to acknowledge, every message is redelivered
 * again and again.
 */
const REFUSED_REST_MS = 60_000
/** Milliseconds after which an open pull counts as accepted by the server. */
const TAKEN_MS = 300
const SETTLED_EVERY_MS = 3_000
/** Redelivery delay after the handler threw. */
const THROWN_RETRY_MS = 1_000
/** Maximum number of renewals per delivery, so that a hanging handler does not hold it forever (a minute at an ack wait of 5 s). */
const MAX_RENEWALS = 36
/** Maximum redelivery delay. The delay doubles each time a delivery is returned. */
const MAX_NAK_MS = 15_000
/** Fraction of the concurrency that must be free, neither running nor requested, before the next pull. */
const REFILL = 0.25

interface Running extends IndexedItem {
  delivery: Delivery
  /** Number of renewals so far. */
  renewed: number
}

/**
 * Consumes a durable with at most `concurrency` handlers at a time. Whatever interrupts a pull (restart, lost consumer, lost connection) only delays
 * the next one.
 */
export class DurableConsumer implements Consumption {
  readonly closed: Promise<void>
  readonly #options: ConsumeOptions
  readonly #puller: Puller
  readonly #link: Connection
  readonly #undos: (() => void)[]
  #resolveClosed: () => void = () => undefined
  readonly #running = new IndexedSet<Running>()
  #renewing: NodeJS.Timeout | undefined
  #settling: NodeJS.Timeout | undefined
  #settled: number | undefined
  #trouble: string | undefined
  /** Problem text after the server refused acknowledgments. */
  #refused: string | undefined
  #pulledAt = 0
  #state: 'open' | 'draining' | 'closed' = 'open'
  #waiting: NodeJS.Timeout | undefined
  #onIdle: (() => void) | undefined

  constructor(link: Connection, options: ConsumeOptions) {
    this.#link = link
    this.#options = options
    this.#puller = new Puller(link, options.stream, options.durable)
    this.#undos = [link.onReconnect.add(() => this.#wake()), link.onRefused.add((subject) => this.#noteRefused(subject))]
    this.closed = new Promise((resolve) => {
      this.#resolveClosed = resolve
    })
    if (options.ack_wait_ms) this.#renewing = setInterval(() => this.#renew(), options.ack_wait_ms / 3).unref()
    if (options.settled) {
      this.#settling = setInterval(() => void this.#noteSettled(), SETTLED_EVERY_MS).unref()
      void this.#noteSettled()
    }
    this.#refill()
  }

  get trouble(): string | undefined {
    if (this.#state !== 'open') return 'it receives no more messages'
    if (this.#refused !== undefined) return this.#refused
    const taken = this.#puller.outstanding > 0 && performance.now() - this.#pulledAt > TAKEN_MS
    return taken ? undefined : this.#trouble
  }

  async drain(ms = DRAIN_MS): Promise<void> {
    if (this.#state === 'closed') return
    this.#state = 'draining'
    clearTimeout(this.#waiting)
    // Without the inbox subscription the server drops our pulls at once; running handlers need only their acknowledgments.
    await this.#puller[Symbol.asyncDispose]()
    if (this.#running.size > 0) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, ms)
        this.#onIdle = () => {
          clearTimeout(timer)
          resolve()
        }
      })
    }
    this.#close()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.drain()
  }

  #close(): void {
    if (this.#state === 'closed') return
    this.#state = 'closed'
    clearInterval(this.#renewing)
    clearInterval(this.#settling)
    for (const undo of this.#undos) undo()
    this.#resolveClosed()
  }

  #wake(): void {
    clearTimeout(this.#waiting)
    this.#waiting = undefined
    this.#refused = undefined
    this.#refill()
  }

  #noteRefused(subject: string): void {
    const { stream, durable } = this.#options
    if (this.#state !== 'open' || !subject.startsWith('$JS.ACK.') || !subject.includes(`.${stream}.${durable}.`)) return
    this.#refused = `missing permission to acknowledge messages from consumer ${durable}; update the NATS permissions (docs/reference/permissions.md)`
    clearTimeout(this.#waiting)
    this.#waiting = setTimeout(() => this.#wake(), REFUSED_REST_MS).unref()
  }

  #refill(): void {
    if (this.#state !== 'open' || this.#waiting) return
    const { concurrency } = this.#options
    const most = typeof concurrency === 'number' ? concurrency : concurrency()
    const room = most - this.#running.size - this.#puller.outstanding
    if (room < Math.max(1, Math.floor(most * REFILL))) return
    void this.#pull(room)
  }

  async #pull(batch: number): Promise<void> {
    const since = performance.now()
    this.#pulledAt = since
    const end = await this.#puller.pull({ batch, expires_ms: PULL_EXPIRES_MS }, this.#onDelivery)
    if (this.#state !== 'open') return
    if (end === 'gone') this.#waiting ??= setTimeout(() => void this.#restore(), RESTORE_WAIT_MS).unref()
    this.#trouble = troubleOf(end, this.#options.durable)
    const refused = end === 'empty' && performance.now() - since < PULL_EXPIRES_MS / 2 && this.#running.size === 0
    if (end === 'failed' || refused) this.#waiting ??= setTimeout(() => this.#wake(), RETRY_DELAY_MS).unref()
    this.#refill()
  }

  async #noteSettled(): Promise<void> {
    try {
      this.#settled = (await this.#options.settled?.()) ?? this.#settled
    } catch {
      // The last value is still valid: a durable that starts a little earlier only delivers a few messages again.
    }
  }

  /** Re-creates a lost durable. Messages after its start sequence may be delivered twice, so handlers must be idempotent. */
  async #restore(): Promise<void> {
    const { restore, onRestored, durable, settled } = this.#options
    try {
      // A starting server reports for a while that nothing exists, so check again.
      if (restore && (await settled?.()) === undefined) {
        const from = this.#settled === undefined ? undefined : this.#settled + 1
        await restore(from)
        onRestored?.(`recreated the consumer ${durable}, from ${from ?? 'its start position'}`)
      }
    } catch (error) {
      this.#link.report(error)
    }
    this.#wake()
  }

  readonly #onDelivery = (delivery: Delivery): void => {
    if (this.#state === 'open') void this.#handle(delivery)
    else delivery.nak()
  }

  async #handle(delivery: Delivery): Promise<void> {
    const running: Running = { index: 0, delivery, renewed: 0 }
    this.#running.add(running)
    try {
      answer(delivery, await this.#options.handler(delivery))
    } catch (error) {
      this.#link.report(error)
      answer(delivery, { retry: true, delay_ms: THROWN_RETRY_MS })
    }
    this.#running.remove(running)
    if (this.#running.size === 0) this.#onIdle?.()
    this.#refill()
  }

  #renew(): void {
    for (const running of this.#running.all()) {
      if (running.renewed >= MAX_RENEWALS) continue
      running.renewed += 1
      running.delivery.working()
    }
  }
}

function troubleOf(end: PullEnd, durable: string): string | undefined {
  if (end === 'gone') return `the consumer ${durable} was deleted`
  return end === 'failed' ? `cannot receive messages from the consumer ${durable}` : undefined
}

function answer(delivery: Delivery, verdict: AckDecision): void {
  if ('ok' in verdict) delivery.ack()
  else if ('fatal' in verdict) delivery.term(verdict.fatal)
  else delivery.nak(backedOff(verdict.delay_ms, delivery.delivered))
}

/** Applies exponential backoff, so that lasting trouble does not use up a message's deliveries within seconds. */
function backedOff(delay_ms: number | undefined, delivered: number): number | undefined {
  return delay_ms === undefined ? undefined : Math.max(delay_ms, Math.min(MAX_NAK_MS, delay_ms * 2 ** (delivered - 1)))
}
