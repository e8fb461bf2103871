import { nuid } from '@nats-io/transport-node'
import type { JetStreamApi } from './api.js'
import type { Following } from './bus-hearing.js'
import type { StreamDelivery } from './delivery.js'
import { Gulps } from './gulps.js'
import { Handing } from './handing.js'
import type { Link } from './link.js'
import { Puller } from './puller.js'

export interface ReaderOptions {
  stream: string
  filters?: string[] | undefined
  /** First sequence wanted, or the newest message of every subject and then all that follow. */
  start: number | 'last_per_subject'
  headers_only?: boolean | undefined
  in_gulps?: boolean | undefined
  /** Called in order, one at a time. One that throws is called again with the same message: nothing is skipped. */
  onMessage: (delivery: StreamDelivery) => void | Promise<void>
  /** The stream is another, or lost its end: its last sequence is below what was read. */
  onWentBack?: (last: number) => void
}

interface ConsumerCreated {
  num_pending: number
}
interface ConsumerState {
  num_pending: number
  delivered: { consumer_seq: number }
}
interface StreamState {
  created: string
  state: { last_seq: number }
}

const WINDOW = 512
const WINDOW_HEADERS = 1024
const PULL_EXPIRES_MS = 5_000
/** Until it is caught up: what it waits for may have been deleted before it came. */
const CATCHING_EXPIRES_MS = 1_000
const MAX_BYTES = 8 * 1024 * 1024
const AGAIN_MS = 250
const INACTIVE_NS = 60_000_000_000

/**
 * An ordered reader: every stored message once, in order, also across reconnects, restarts and lost consumers.
 * It reads by a short-lived consumer without acknowledgments, checks that its deliveries are consecutive, and makes a new one
 * from the message after the last one handed on whenever anything is doubtful.
 */
export class StreamReader implements Following {
  readonly closed: Promise<void>
  readonly caughtUp: Promise<void>
  readonly #link: Link
  readonly #api: JetStreamApi
  readonly #options: ReaderOptions
  readonly #undo: () => void
  readonly #window: number
  #resolveClosed: () => void = () => undefined
  #resolveCaughtUp: () => void = () => undefined
  #isCaughtUp = false
  /** The server has nothing behind what it delivered. */
  #nothingBehind = false
  #position: number
  /** The message that it is handling is never read anew. */
  readonly #handing: Handing
  #puller: Puller | undefined
  #consumer = ''
  readonly #stale = new Set<string>()
  #expected = 1
  #timer: NodeJS.Timeout | undefined
  #making = false
  #isClosed = false
  #trouble: string | undefined
  readonly #gulps = new Gulps()
  /** When its stream was made. */
  #created: string | undefined

  constructor(context: { link: Link; api: JetStreamApi }, options: ReaderOptions) {
    this.#link = context.link
    this.#api = context.api
    this.#options = options
    this.#window = options.headers_only ? WINDOW_HEADERS : WINDOW
    this.#position = typeof options.start === 'number' ? Math.max(0, options.start - 1) : 0
    this.#handing = new Handing({
      handle: options.onMessage,
      onHandled: (delivery) => this.#onHandled(delivery),
      onIdle: () => this.#onIdle(),
      report: (error) => this.#link.report(error),
    })
    this.#undo = this.#link.onReconnect.add(() => void this.#restart())
    this.closed = new Promise((resolve) => {
      this.#resolveClosed = resolve
    })
    this.caughtUp = new Promise((resolve) => {
      this.#resolveCaughtUp = resolve
    })
  }

  get position(): number {
    return this.#position
  }

  get trouble(): string | undefined {
    return this.#isClosed ? 'it reads no more' : this.#trouble
  }

  /** Makes the first consumer; throws BusReadError when the server refuses it. */
  async open(): Promise<this> {
    try {
      await this.#make()
    } catch (error) {
      await this[Symbol.asyncDispose]()
      throw error
    }
    return this
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#undo()
    clearTimeout(this.#timer)
    this.#handing.close()
    await this.#drop()
    this.#resolveClosed()
  }

  async #drop(): Promise<void> {
    const puller = this.#puller
    this.#puller = undefined
    this.#gulps.stop()
    if (this.#consumer) this.#stale.add(this.#consumer)
    this.#consumer = ''
    await puller?.[Symbol.asyncDispose]()
    await this.#forget()
  }

  /** Consumers that are of no use any more; what cannot be deleted now goes later, or by itself when it is inactive. */
  async #forget(): Promise<void> {
    for (const consumer of this.#stale) {
      if (!this.#link.connected) return
      const reply = await this.#api.raw(`CONSUMER.DELETE.${this.#options.stream}.${consumer}`)
      if ('message' in reply) this.#stale.delete(consumer)
    }
  }

  /** Begins anew after the last message handed on; tries until it works. */
  async #restart(): Promise<void> {
    if (this.#isClosed || this.#making) return
    clearTimeout(this.#timer)
    this.#making = true
    try {
      this.#handing.clear()
      void this.#drop()
      await this.#checkBack()
      await this.#make()
    } catch (error) {
      this.#trouble = error instanceof Error ? error.message : String(error)
      this.#later(AGAIN_MS)
    } finally {
      this.#making = false
    }
  }

  #later(ms: number): void {
    if (this.#isClosed) return
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => void this.#restart(), ms)
    this.#timer.unref()
  }

  async #checkBack(): Promise<void> {
    const { state, created } = await this.#api.must<StreamState>(`STREAM.INFO.${this.#options.stream}`)
    const isOther = this.#created !== undefined && this.#created !== created
    this.#created = created
    if (state.last_seq >= this.#position && !isOther) return
    this.#position = isOther || this.#options.start === 'last_per_subject' ? 0 : state.last_seq
    this.#handing.forget()
    this.#options.onWentBack?.(this.#position)
  }

  /** One that lives on must notice when its stream is another, however much that one holds. */
  async #noteCreated(): Promise<void> {
    if (this.#created === undefined) this.#created = (await this.#api.must<StreamState>(`STREAM.INFO.${this.#options.stream}`)).created
  }

  async #make(): Promise<void> {
    const { stream, filters, start, headers_only } = this.#options
    const name = `read_${nuid.next()}`
    const from =
      start === 'last_per_subject' && this.#position === 0 && this.#handing.taken === 0
        ? { deliver_policy: 'last_per_subject' }
        : { deliver_policy: 'by_start_sequence', opt_start_seq: Math.max(this.#position, this.#handing.taken) + 1 }
    const config = {
      name,
      ...from,
      ack_policy: 'none',
      replay_policy: 'instant',
      ...(filters && filters.length > 0 ? { filter_subjects: filters } : {}),
      ...(headers_only ? { headers_only } : {}),
      mem_storage: true,
      num_replicas: 1,
      inactive_threshold: INACTIVE_NS,
    }
    const made = await this.#api.must<ConsumerCreated>(`CONSUMER.CREATE.${stream}.${name}`, {
      stream_name: stream,
      config,
      action: 'create',
    })
    if (this.#isClosed) {
      await this.#api.raw(`CONSUMER.DELETE.${stream}.${name}`)
      return
    }
    this.#consumer = name
    this.#expected = 1
    this.#trouble = undefined
    this.#puller = new Puller(this.#link, stream, name)
    this.#nothingBehind = made.num_pending === 0
    this.#checkCaughtUp()
    this.#pull()
  }

  #pull(): void {
    const puller = this.#puller
    if (!puller || this.#isClosed || this.#gulps.waits(puller.outstanding)) return
    const room = this.#window - puller.outstanding - this.#handing.length
    if (room < this.#window / 2) return
    void this.#pullOnce(puller, room)
  }

  async #pullOnce(puller: Puller, batch: number): Promise<void> {
    const since = performance.now()
    const before = this.#expected
    const max_bytes = this.#options.headers_only ? {} : { max_bytes: Math.max(MAX_BYTES, 2 * this.#link.maxPayload) }
    const is_gulp = this.#gulps.on
    const waits_ms = this.#isCaughtUp ? PULL_EXPIRES_MS : CATCHING_EXPIRES_MS
    const expires_ms = is_gulp ? 0 : waits_ms
    const end = await puller.pull({ batch, expires_ms, ...max_bytes }, (delivery) => this.#onDelivery(puller, delivery))
    if (puller !== this.#puller || this.#isClosed) return
    const nothing = end === 'empty' && this.#expected === before
    const ms = performance.now() - since
    const odd = nothing && ms < expires_ms / 2
    if (end === 'gone' || end === 'failed' || odd) {
      this.#trouble = end === 'gone' ? 'its consumer is gone' : 'nothing can be read now'
      return this.#later(AGAIN_MS)
    }
    if (this.#options.in_gulps && this.#isCaughtUp) {
      this.#gulps.after({ end, is_gulp, came: this.#expected - before, ms }, () => this.#pull())
    }
    if (this.#isCaughtUp) await this.#noteCreated().catch(() => undefined)
    if (nothing && !this.#isCaughtUp) await this.#askBehind(puller).catch(() => undefined)
    this.#pull()
  }

  /** What was pending when it began may be deleted by now: then no delivery says that it was the last one. */
  async #askBehind(puller: Puller): Promise<void> {
    const state = await this.#api.must<ConsumerState>(`CONSUMER.INFO.${this.#options.stream}.${this.#consumer}`)
    if (puller !== this.#puller || state.num_pending > 0 || state.delivered.consumer_seq >= this.#expected) return
    this.#nothingBehind = true
    this.#checkCaughtUp()
  }

  #checkCaughtUp(): void {
    if (this.#nothingBehind && this.#handing.idle) this.#caughtUp()
  }

  #caughtUp(): void {
    if (this.#isCaughtUp) return
    this.#isCaughtUp = true
    this.#resolveCaughtUp()
  }

  #onHandled(delivery: StreamDelivery): void {
    this.#position = delivery.sequence
    if (delivery.pending === 0) this.#caughtUp()
  }

  #onIdle(): void {
    if (!this.#isCaughtUp) this.#checkCaughtUp()
    this.#pull()
  }

  #onDelivery(puller: Puller, delivery: StreamDelivery): void {
    if (puller !== this.#puller || this.#isClosed) return
    if (delivery.consumer_sequence !== this.#expected) {
      void this.#restart()
      return
    }
    this.#expected += 1
    this.#nothingBehind = delivery.pending === 0
    this.#handing.push(delivery)
  }
}
