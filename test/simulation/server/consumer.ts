import type { World } from '../world.js'
import type { Line } from './network-line.js'
import { type Kept, matches, type SimStream } from './stream.js'

export interface ConsumerConfig {
  name: string
  filters: string[]
  ack_wait_ms: number
  max_deliver: number
  from: number
}

/** A delivery as it leaves the server. */
export interface Handed {
  kept: Kept
  delivered: number
  consumer_sequence: number
}

export interface Pull {
  line: Line
  left: number
  /** Undefined: it does not wait. */
  expires_at: number | undefined
  onDelivery: (handed: Handed) => void
  /** 404/408: nothing (more); 503: no such consumer. */
  onEnd: (how: 'empty' | 'gone') => void
}

const MAX_ACK_PENDING = 4_096

/** A durable consumer with explicit acknowledgments, as the server keeps one. */
export class SimConsumer {
  config: ConsumerConfig
  readonly created: number
  /** Told when a delivery is acknowledged, and when the server gives one up. */
  onAck: (sequence: number) => void = () => undefined
  onGivenUp: (sequence: number, deliveries: number) => void = () => undefined
  readonly #world: World
  readonly #stream: SimStream
  #next: number
  #consumer_sequence = 0
  readonly #counts = new Map<string | number, number>()
  /** Delivered and neither acknowledged nor given back: until when. */
  readonly #pending = new Map<number, number>()
  readonly #settled = new Set<number>()
  readonly #touched = new Map<number, number>()
  #again: number[] = []
  #pulls: Pull[] = []
  #gone = false
  #mute_until = 0

  constructor(world: World, stream: SimStream, config: ConsumerConfig) {
    this.#world = world
    this.#stream = stream
    this.config = config
    this.created = world.now
    this.#next = config.from
  }

  get pending(): number {
    return this.#pending.size + this.#again.length
  }
  /** Highest sequence that was ever delivered, 0 for none. */
  get delivered(): number {
    return Math.max(0, ...[...this.#counts.keys()].filter((key) => typeof key === 'number'))
  }
  get waiting(): number {
    return this.#pulls.reduce((sum, pull) => sum + pull.left, 0)
  }

  pull(pull: Pull): void {
    this.#pulls.push(pull)
    this.pump()
    if (pull.left === 0) return
    if (pull.expires_at === undefined) this.#expire(pull)
    else this.#world.after(pull.expires_at - this.#world.time, () => this.#expire(pull))
  }

  /** A connection is gone: so are its pulls. */
  drop(line: Line): void {
    this.#pulls = this.#pulls.filter((pull) => pull.line !== line)
  }

  dropPull(pull: Pull): void {
    this.#pulls = this.#pulls.filter((one) => one !== pull)
  }

  remove(): void {
    this.#gone = true
    for (const pull of this.#pulls.splice(0)) pull.line.down(() => pull.onEnd('gone'))
  }

  /** It has lost its leader: it delivers nothing for so long. */
  mute(ms: number): void {
    this.#mute_until = this.#world.time + ms
    this.#world.after(ms, () => this.pump())
  }

  pump(): void {
    if (this.#world.time < this.#mute_until) return
    while (this.#pulls.length > 0 && this.#pending.size < MAX_ACK_PENDING) {
      const kept = this.#take()
      const pull = this.#pulls[0]
      if (!kept || !pull) return
      this.#deliver(pull, kept)
    }
  }

  ack(sequence: number): void {
    if (this.#gone || this.#settled.has(sequence) || !this.#counts.has(sequence)) return
    this.#pending.delete(sequence)
    this.#again = this.#again.filter((one) => one !== sequence)
    this.#settled.add(sequence)
    this.#touched.set(sequence, this.#world.time)
    this.onAck(sequence)
    this.pump()
  }

  working(sequence: number): void {
    if (this.#pending.has(sequence)) this.#lease(sequence)
  }

  nak(sequence: number, delay_ms = 0): void {
    if (!this.#pending.delete(sequence)) return
    if (delay_ms <= 0) {
      this.#redeliver(sequence)
      return
    }
    this.#pending.set(sequence, this.#world.time + delay_ms)
    this.#world.after(delay_ms, () => this.#lapse(sequence))
  }

  term(sequence: number): void {
    if (this.#pending.delete(sequence)) this.#settled.add(sequence)
  }

  /** A killed server keeps what it had written down: what happened within the last `ms` it has forgotten. */
  forget(ms: number): void {
    const since = this.#world.time - ms
    for (const [sequence, at] of this.#touched) {
      if (at < since) continue
      this.#counts.delete(sequence)
      this.#pending.delete(sequence)
      this.#settled.delete(sequence)
      this.#touched.delete(sequence)
      this.#next = Math.min(this.#next, sequence)
      this.#consumer_sequence = Math.max(0, this.#consumer_sequence - 1)
    }
    this.#again = this.#again.filter((sequence) => this.#counts.has(sequence))
    this.pump()
  }

  #take(): Kept | undefined {
    for (let sequence = this.#again.shift(); sequence !== undefined; sequence = this.#again.shift()) {
      const kept = this.#stream.get(sequence)
      if (kept) return kept
    }
    for (let kept = this.#stream.nextOf(undefined, this.#next); kept; kept = this.#stream.nextOf(undefined, this.#next)) {
      const { sequence } = kept
      this.#next = sequence + 1
      if (this.#counts.has(sequence) || this.#settled.has(sequence)) continue
      if (this.config.filters.some((filter) => matches(filter, kept.subject))) return kept
    }
    return undefined
  }

  #deliver(pull: Pull, kept: Kept): void {
    const { sequence } = kept
    const delivered = (this.#counts.get(sequence) ?? 0) + 1
    this.#counts.set(sequence, delivered)
    const handed: Handed = { kept, delivered, consumer_sequence: ++this.#consumer_sequence }
    this.#touched.set(sequence, this.#world.time)
    this.#lease(sequence)
    pull.left -= 1
    if (pull.left === 0) this.#pulls.shift()
    pull.line.down(() => pull.onDelivery(handed), 'delivery')
  }

  #lease(sequence: number): void {
    const until = this.#world.time + this.config.ack_wait_ms
    this.#pending.set(sequence, until)
    this.#world.after(this.config.ack_wait_ms, () => this.#lapse(sequence))
  }

  #lapse(sequence: number): void {
    const until = this.#pending.get(sequence)
    if (this.#gone || until === undefined || until > this.#world.time + 1e-6) return
    this.#pending.delete(sequence)
    this.#redeliver(sequence)
  }

  #redeliver(sequence: number): void {
    const deliveries = this.#counts.get(sequence) ?? 0
    if (deliveries >= this.config.max_deliver) {
      this.#settled.add(sequence)
      if (this.#stream.get(sequence)) this.onGivenUp(sequence, deliveries)
      return
    }
    this.#again.push(sequence)
    this.pump()
  }

  #expire(pull: Pull): void {
    const at = this.#pulls.indexOf(pull)
    if (at < 0) return
    this.#pulls.splice(at, 1)
    pull.line.down(() => pull.onEnd('empty'))
  }
}
