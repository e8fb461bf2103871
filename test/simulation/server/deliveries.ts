import type { AckDecision, Consumption, Delivery, MessageHeaders, PullEnd, PullOptions, WorkSource } from '@passover/bus'
import type { Priority } from '@passover/schemas'
import type { SimBus } from './bus.js'
import type { Handed, Pull, SimConsumer } from './consumer.js'
import { TIMEOUT_MS } from './network-line.js'

const GRACE_MS = 2_000
const AGAIN_MS = 500
const RESTORE_MS = 1_000
const PULL_MS = 5_000
const MAX_RENEWALS = 36
const MAX_NAK_MS = 15_000
const ACK_WAIT_MS = 5_000

/** A delivery in a process; answering it is a message like any other, and may get lost. */
class SimDelivery implements Delivery {
  readonly subject: string
  readonly sequence: number
  readonly time: number
  readonly headers: MessageHeaders
  readonly data: Uint8Array
  readonly delivered: number
  readonly consumer_sequence: number
  readonly #bus: SimBus
  readonly #consumer: SimConsumer
  #answered = false

  constructor(bus: SimBus, consumer: SimConsumer, { kept, delivered, consumer_sequence }: Handed) {
    this.subject = kept.subject
    this.sequence = kept.sequence
    this.time = kept.time
    this.headers = kept.headers
    this.data = kept.data
    this.delivered = delivered
    this.consumer_sequence = consumer_sequence
    this.#bus = bus
    this.#consumer = consumer
  }

  ack(): void {
    this.#answer(() => this.#consumer.ack(this.sequence))
  }
  working(): void {
    if (!this.#answered) this.#bus.line.up(() => this.#consumer.working(this.sequence))
  }
  nak(delay_ms?: number): void {
    this.#answer(() => this.#consumer.nak(this.sequence, delay_ms))
  }
  term(): void {
    this.#answer(() => this.#consumer.term(this.sequence))
  }
  #answer(how: () => void): void {
    if (this.#answered) return
    this.#answered = true
    this.#bus.line.up(how)
  }
}

/** Pulls from a durable by name: it may be gone, and another one may be made under the name. */
class Puller {
  readonly #bus: SimBus
  readonly #durable: string
  readonly #open = new Set<(end: PullEnd) => void>()
  readonly #pulls = new Set<Pull>()
  #closed = false
  #latest: ((delivery: Delivery) => void) | undefined

  constructor(bus: SimBus, durable: string) {
    this.#bus = bus
    this.#durable = durable
    bus.line.onDisconnect.add(this.#failed)
  }

  pull({ batch, expires_ms }: PullOptions, onDelivery: (delivery: Delivery) => void): Promise<PullEnd> {
    const { line, server } = this.#bus
    return new Promise((resolve) => {
      if (this.#closed || !line.connected) return resolve('failed')
      this.#latest = onDelivery
      let left = batch
      const end = (how: PullEnd) => {
        if (!this.#open.delete(end)) return
        timer[Symbol.dispose]()
        resolve(how)
      }
      this.#open.add(end)
      const timer = line.process.after(expires_ms + GRACE_MS, () => end('empty'))
      line.up(() => {
        const consumer = server.consumers.get(this.#durable)
        if (!consumer) return line.down(() => end('gone'))
        if (!line.connected || this.#closed) return
        const arrive = (handed: Handed) => {
          const hand = this.#open.has(end) ? onDelivery : this.#latest
          left -= 1
          if (left === 0) end('full')
          // Nobody listens any more: the server waits for the acknowledgment in vain.
          if (!this.#closed) hand?.(new SimDelivery(this.#bus, consumer, handed))
        }
        const expires_at = expires_ms > 0 ? server.world.time + expires_ms : undefined
        const pull: Pull = { line, left: batch, expires_at, onDelivery: arrive, onEnd: end }
        this.#pulls.add(pull)
        consumer.pull(pull)
      })
    })
  }

  close(): void {
    if (this.#closed) return
    this.#closed = true
    this.#bus.line.onDisconnect.delete(this.#failed)
    const { line, server } = this.#bus
    line.up(() => {
      for (const pull of this.#pulls) server.consumers.get(this.#durable)?.dropPull(pull)
    }, 'arrives')
    for (const end of [...this.#open]) end('failed')
  }

  readonly #failed = (): void => {
    this.#pulls.clear()
    if (!this.#bus.line.process.dead) for (const end of [...this.#open]) this.#bus.line.process.after(0, () => end('failed'))
  }
}

export class SimWorkSource implements WorkSource {
  readonly priority: Priority
  readonly #bus: SimBus
  readonly #durable: string
  readonly #puller: Puller

  constructor(bus: SimBus, durable: string, priority: Priority) {
    this.priority = priority
    this.#bus = bus
    this.#durable = durable
    this.#puller = new Puller(bus, durable)
  }

  pull(options: PullOptions, onDelivery: (delivery: Delivery) => void): Promise<PullEnd> {
    return this.#puller.pull(options, onDelivery)
  }
  async created(): Promise<number | undefined> {
    const ask = () => ({ created: this.#bus.server.consumers.get(this.#durable)?.created })
    return this.#bus.must(await this.#bus.line.request(ask, TIMEOUT_MS), this.#durable).created
  }
  async [Symbol.asyncDispose](): Promise<void> {
    this.#puller.close()
  }
}

interface Consuming {
  durable: string
  concurrency: number | (() => number)
  handler: (delivery: Delivery) => Promise<AckDecision>
}

/** As the real one: at most so many handlers at a time, renewed while they run, and the durable made anew when it is gone. */
export class SimConsumption implements Consumption {
  readonly closed: Promise<void>
  readonly #bus: SimBus
  readonly #options: Consuming
  readonly #puller: Puller
  readonly #running = new Map<Delivery, number>()
  #state: 'open' | 'closed' = 'open'
  #outstanding = 0
  #waiting: Disposable | undefined
  #resolveClosed: () => void = () => undefined
  #whenIdle: (() => void) | undefined

  constructor(bus: SimBus, options: Consuming) {
    this.#bus = bus
    this.#options = options
    this.#puller = new Puller(bus, options.durable)
    this.closed = new Promise((resolve) => {
      this.#resolveClosed = resolve
    })
    bus.line.onReconnect.add(this.#wake)
    this.#renewLater()
    this.#refill()
  }

  async drain(ms = 10_000): Promise<void> {
    if (this.#state === 'closed') return
    this.#state = 'closed'
    this.#waiting?.[Symbol.dispose]()
    this.#bus.line.onReconnect.delete(this.#wake)
    this.#puller.close()
    if (this.#running.size > 0) {
      await new Promise<void>((resolve) => {
        this.#whenIdle = resolve
        this.#bus.timing.after(ms, resolve)
      })
    }
    this.#resolveClosed()
  }
  [Symbol.asyncDispose](): Promise<void> {
    return this.drain()
  }

  readonly #wake = (): void => {
    this.#waiting?.[Symbol.dispose]()
    this.#waiting = undefined
    this.#refill()
  }

  #later(ms: number, run: () => void): void {
    this.#waiting ??= this.#bus.timing.after(ms, run)
  }

  #refill(): void {
    if (this.#state !== 'open' || this.#waiting) return
    const { concurrency } = this.#options
    const most = typeof concurrency === 'number' ? concurrency : concurrency()
    const room = most - this.#running.size - this.#outstanding
    if (room >= Math.max(1, most / 4)) void this.#pull(room)
  }

  async #pull(batch: number): Promise<void> {
    this.#outstanding += batch
    let left = batch
    const end = await this.#puller.pull({ batch, expires_ms: PULL_MS }, (delivery) => {
      left -= 1
      this.#outstanding -= 1
      if (this.#state === 'open') void this.#handle(delivery)
      else delivery.nak()
    })
    this.#outstanding -= Math.max(0, left)
    if (this.#state !== 'open') return
    if (end === 'gone') this.#later(RESTORE_MS, () => void this.#restore())
    if (end === 'failed') this.#later(AGAIN_MS, this.#wake)
    this.#refill()
  }

  async #restore(): Promise<void> {
    await this.#bus.ensureTopology().catch(() => undefined)
    this.#wake()
  }

  async #handle(delivery: Delivery): Promise<void> {
    this.#running.set(delivery, 0)
    const verdict = await this.#options.handler(delivery).catch((): AckDecision => ({ retry: true, delay_ms: 1_000 }))
    if ('ok' in verdict) delivery.ack()
    else if ('fatal' in verdict) delivery.term()
    else delivery.nak(backedOff(verdict.delay_ms, delivery.delivered))
    this.#running.delete(delivery)
    if (this.#running.size === 0) this.#whenIdle?.()
    this.#refill()
  }

  #renewLater(): void {
    this.#bus.timing.after(ACK_WAIT_MS / 3, () => {
      for (const [delivery, renewed] of this.#running) {
        if (renewed >= MAX_RENEWALS) continue
        this.#running.set(delivery, renewed + 1)
        delivery.working()
      }
      if (this.#state === 'open' || this.#running.size > 0) this.#renewLater()
    })
  }
}

function backedOff(delay_ms: number | undefined, delivered: number): number | undefined {
  return delay_ms === undefined ? undefined : Math.max(delay_ms, Math.min(MAX_NAK_MS, delay_ms * 2 ** (delivered - 1)))
}
