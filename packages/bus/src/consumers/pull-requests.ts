import type { Subscription } from '@nats-io/transport-node'
import type { Connection } from '../connection/connection.js'
import type { PullEnd } from '../types/deliveries.js'
import { headersOf } from '../wire/headers.js'
import type { ReceivedMessage } from '../wire/raw-message.js'
import { parseAck, StreamDelivery } from './delivery.js'

export interface PullRequest {
  batch: number
  /** Milliseconds to wait for messages; 0: the server answers at once. */
  expires_ms: number
  max_bytes?: number
}

interface Open {
  token: string
  left: number
  timer: NodeJS.Timeout
  onDelivery: (delivery: StreamDelivery) => void
  end: (how: PullEnd) => void
}

/** Milliseconds after the expiry until a pull that the server did not end is given up. */
const GRACE_MS = 2_000
const IDLE_MS = 5_000
const NANOS_PER_MS = 1_000_000
const TEXT = new TextEncoder()

/**
 * Sends pull requests to one consumer, several at a time if needed, over a subscription of its own that closes when idle. Deliveries do not name
 * their pull: each is counted to the oldest open pull, and a status message corrects the count.
 */
export class Puller implements AsyncDisposable {
  readonly #link: Connection
  readonly #subject: string
  readonly #open = new Map<string, Open>()
  readonly #undo: () => void
  #inbox = ''
  #subscription: Subscription | undefined
  #next = 0
  #outstanding = 0
  /** Cached pull to which the next delivery is counted. */
  #oldest: Open | undefined
  #lastUse = 0
  #idle: NodeJS.Timeout | undefined
  #latest: ((delivery: StreamDelivery) => void) | undefined
  #closed = false

  constructor(link: Connection, stream: string, consumer: string) {
    this.#link = link
    this.#subject = `$JS.API.CONSUMER.MSG.NEXT.${stream}.${consumer}`
    const undoDisconnect = link.onDisconnect.add(() => this.#endAll('failed'))
    const undoRefused = link.onRefused.add((subject) => {
      if (subject === this.#subject) this.#endAll('gone')
    })
    this.#undo = () => {
      undoDisconnect()
      undoRefused()
    }
  }

  /** Number of messages requested but not received yet. */
  get outstanding(): number {
    return this.#outstanding
  }

  /** Requests messages. A delivery after the end of its pull goes to the latest callback, because it is leased to this process. */
  pull(request: PullRequest, onDelivery: (delivery: StreamDelivery) => void): Promise<PullEnd> {
    return new Promise((resolve) => {
      if (this.#closed || !this.#link.connected) return resolve('failed')
      this.#listen()
      const token = (this.#next++).toString(36)
      const timer = setTimeout(() => this.#end(token, 'empty'), request.expires_ms + GRACE_MS)
      this.#open.set(token, { token, left: request.batch, timer, onDelivery, end: resolve })
      this.#outstanding += request.batch
      this.#latest = onDelivery
      const sent = this.#link.send(this.#subject, body(request), { reply: `${this.#inbox}.${token}` })
      if (!sent) this.#end(token, 'failed')
    })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    this.#undo()
    this.#endAll('failed')
    this.#silence()
  }

  #listen(): void {
    this.#lastUse = performance.now()
    if (this.#subscription && !this.#subscription.isClosed()) return
    this.#inbox = this.#link.inbox()
    this.#subscription = this.#link.subscribe(`${this.#inbox}.*`, (message) => this.#onMessage(message))
    this.#idle ??= setInterval(() => {
      if (this.#open.size === 0 && performance.now() - this.#lastUse >= IDLE_MS) this.#silence()
    }, IDLE_MS).unref()
  }

  #silence(): void {
    clearInterval(this.#idle)
    this.#idle = undefined
    if (this.#subscription && !this.#subscription.isClosed()) this.#subscription.unsubscribe()
    this.#subscription = undefined
  }

  #onMessage(message: ReceivedMessage): void {
    const { reply } = message
    const tokens = reply ? parseAck(reply) : undefined
    if (!reply || !tokens) {
      this.#onStatus(message)
      return
    }
    const first = this.#first()
    const onDelivery = first?.onDelivery ?? this.#latest
    if (first) {
      first.left -= 1
      this.#outstanding -= 1
      if (first.left === 0) this.#end(first.token, 'full')
    }
    onDelivery?.(new StreamDelivery(message, reply, { link: this.#link, tokens }))
  }

  #first(): Open | undefined {
    if (!this.#oldest) [this.#oldest] = this.#open.values()
    return this.#oldest
  }

  #onStatus(message: ReceivedMessage): void {
    const token = message.subject.slice(this.#inbox.length + 1)
    const headers = headersOf(message)
    const { code, description } = headers.status
    if (code === 100) return
    const how = endOf(code, description)
    if (this.#open.has(token)) {
      this.#end(token, how)
      return
    }
    // Its deliveries were counted to another pull, which now expects that many too many.
    const oldest = this.#first()
    const excess = Number(headers.get('Nats-Pending-Messages'))
    if (!oldest || !(excess > 0)) return
    const taken = Math.min(excess, oldest.left)
    oldest.left -= taken
    this.#outstanding -= taken
    if (oldest.left <= 0) this.#end(oldest.token, how)
  }

  #end(token: string, how: PullEnd): void {
    const pull = this.#open.get(token)
    if (!pull) return
    this.#open.delete(token)
    this.#outstanding -= pull.left
    if (this.#oldest === pull) this.#oldest = undefined
    this.#lastUse = performance.now()
    clearTimeout(pull.timer)
    pull.end(how)
  }

  #endAll(how: PullEnd): void {
    for (const token of [...this.#open.keys()]) this.#end(token, how)
  }
}

function body(request: PullRequest): Uint8Array {
  const { batch, expires_ms, max_bytes } = request
  const wait = expires_ms > 0 ? { expires: expires_ms * NANOS_PER_MS } : { no_wait: true }
  return TEXT.encode(JSON.stringify({ batch, ...wait, ...(max_bytes === undefined ? {} : { max_bytes }) }))
}

/** Maps the server's status (404, 408, 409, 503) to the reason why a pull ended. */
export function endOf(code: number, description: string): PullEnd {
  if (code === 404 || code === 408) return 'empty'
  if (code === 503) return 'gone'
  if (code !== 409) return 'failed'
  const text = description.toLowerCase()
  if (text.includes('consumer deleted') || text.includes('consumer is push based')) return 'gone'
  if (text.includes('leadership change') || text.includes('server shutdown')) return 'failed'
  return 'empty'
}
