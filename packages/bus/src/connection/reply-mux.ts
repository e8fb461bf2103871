import { PendingTable } from '../collections/pending-table.js'
import type { NoReply } from '../types/errors.js'
import { headersOf } from '../wire/headers.js'
import type { ReceivedMessage } from '../wire/raw-message.js'
import type { Connection } from './connection.js'

/** Outcome of a request: the reply, or the reason why there is none. */
export type Reply = { message: ReceivedMessage } | { none: NoReply }

export interface Question {
  subject: string
  data: Uint8Array
  /** Header block from `encodeHeaders`. */
  headers?: string | undefined
  timeout_ms: number
}

interface Waiting {
  subject: string
  /**
   * Number of sweeps until the timeout. Counted instead of timed: after a blocked event loop, replies that are unread in the socket must not expire.
   */
  sweeps: number
  settle: (reply: Reply) => void
}

const SWEEP_MS = 250
const EMPTY = new Uint8Array(0)

/**
 * Multiplexes requests and replies over one inbox subscription, with one sweep for all timeouts. The client's own request creates timers and races a
 * message; this costs a map entry.
 */
export class ReplyMux implements AsyncDisposable {
  readonly #link: Connection
  readonly #base: string
  readonly #waiting = new PendingTable<Waiting>()
  readonly #undo: (() => void)[]
  #sweep: NodeJS.Timeout | undefined
  #closed = false

  constructor(link: Connection, onInboxRefused: (error: Error) => void) {
    this.#link = link
    this.#base = `${link.inbox()}.`
    const subscription = link.subscribe(`${this.#base}*`, (message) => this.#onMessage(message), { onRefused: onInboxRefused })
    this.#undo = [
      () => subscription.unsubscribe(),
      link.onDisconnect.add(() => this.#settleAll('disconnected')),
      link.onRefused.add((subject) => this.#refused(subject)),
    ]
  }

  /** Sends a request. `settle` is called exactly once, possibly before this returns. */
  send(question: Question, settle: (reply: Reply) => void): void {
    if (this.#closed || !this.#link.connected) {
      settle({ none: this.#closed ? 'closed' : 'disconnected' })
      return
    }
    const { subject, data, headers, timeout_ms } = question
    const token = this.#waiting.add({ subject, sweeps: Math.ceil(timeout_ms / SWEEP_MS) + 1, settle })
    if (!this.#link.send(subject, data, { reply: `${this.#base}${token}`, headers })) this.#settle(token, { none: this.#whyUnsent(data) })
    this.#sweep ??= setInterval(() => this.#tick(), SWEEP_MS).unref()
  }

  request(question: Question): Promise<Reply> {
    return new Promise((resolve) => this.send(question, resolve))
  }

  get pending(): number {
    return this.#waiting.size
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    for (const undo of this.#undo) undo()
    this.#settleAll('closed')
    clearInterval(this.#sweep)
    this.#sweep = undefined
  }

  #whyUnsent(data: Uint8Array): NoReply {
    return this.#link.connected && data.length > this.#link.maxPayload - 4096 ? 'too_large' : 'disconnected'
  }

  #onMessage(message: ReceivedMessage): void {
    const token = Number(message.subject.slice(this.#base.length))
    const empty = message.data.length === 0
    const none = empty && headersOf(message).status.code === 503
    this.#settle(token, none ? { none: 'no_responders' } : { message })
  }

  #settle(token: number, reply: Reply): void {
    const waiting = this.#waiting.take(token)
    if (!waiting) return
    try {
      waiting.settle(reply)
    } catch (error) {
      this.#link.report(error)
    }
  }

  #settleAll(none: NoReply): void {
    for (const { number } of this.#waiting.entries()) this.#settle(number, { none })
  }

  #refused(subject: string): void {
    for (const { number, item } of this.#waiting.entries()) {
      if (item.subject === subject) this.#settle(number, { none: 'permission' })
    }
  }

  #tick(): void {
    for (const { number, item } of this.#waiting.entries()) {
      item.sweeps -= 1
      if (item.sweeps <= 0) this.#settle(number, { none: 'timeout' })
    }
    if (this.#waiting.size > 0) return
    clearInterval(this.#sweep)
    this.#sweep = undefined
  }
}

/** Empty body. */
export const NOTHING = EMPTY
