import type { NatsConnection, PublishOptions, Status, Subscription } from '@nats-io/transport-node'
import { createInbox, errors } from '@nats-io/transport-node'
import type { Denied } from '../types/bus.js'
import { asClientHeaders } from '../wire/headers.js'
import { type ClientParser, ProtocolReader } from '../wire/protocol-reader.js'
import type { ReceivedMessage } from '../wire/raw-message.js'
import { type SendOptions, WriteBuffer } from '../wire/write-buffer.js'

/** Set of listeners for one kind of event. Removing a listener is idempotent. */
class Listeners<A extends unknown[]> {
  readonly #all = new Set<(...args: A) => void>()
  add(listener: (...args: A) => void): () => void {
    this.#all.add(listener)
    return () => this.#all.delete(listener)
  }
  call(report: (error: unknown) => void, ...args: A): void {
    for (const listener of [...this.#all]) guarded(report, () => listener(...args))
  }
  get size(): number {
    return this.#all.size
  }
}

function forClient({ reply, headers }: SendOptions): PublishOptions {
  return { ...(reply === undefined ? {} : { reply }), ...(headers === undefined ? {} : { headers: asClientHeaders(headers) }) }
}

function guarded(report: (error: unknown) => void, work: () => void): void {
  try {
    work()
  } catch (error) {
    report(error)
  }
}

/**
 * Internals of the client: `sendCommand` writes raw commands in order with the client's own, `parser` reads the protocol. If a later version hides
 * them, its `publish` is used.
 */
interface RawConnection {
  protocol?: { sendCommand?(bytes: Uint8Array): void; parser?: ClientParser }
}

const WHITE_SPACE = /\s/
/** Number of bytes that are handed to the client before the turn ends. */
const GATHERED_BYTES = 64 * 1024

/**
 * Wraps one NATS connection for the rest of the bus. An exception in a callback would silently stop the client's read loop, so callbacks are wrapped.
 */
export class Connection {
  readonly nc: NatsConnection
  /** Prefix of the identity's inboxes, which the permissions allow. */
  readonly inboxPrefix: string
  readonly onReconnect = new Listeners<[]>()
  readonly onDisconnect = new Listeners<[]>()
  /** Listeners for publishes that the server refused for lack of permission. */
  readonly onRefused = new Listeners<[subject: string]>()
  readonly #report: (error: unknown) => void
  readonly #flush = () => this.flush()
  readonly #buffer = new WriteBuffer()
  readonly #raw: RawConnection['protocol']
  /** Message callbacks by the client's subscription id. */
  readonly #heard = new Map<number, (message: ReceivedMessage) => void>()
  #connected = true
  /** Reason why the server closed the last connection, and reason why it refuses a new one. */
  #ended: Exclude<Denied, 'refused'> | undefined
  #denied: Denied | undefined
  #subscriptions = 0

  constructor(nc: NatsConnection, inboxPrefix: string, report: (error: unknown) => void) {
    this.nc = nc
    this.#raw = (nc as RawConnection).protocol
    this.inboxPrefix = inboxPrefix
    this.#report = report
    this.#adopt()
    void this.#listen()
  }

  get connected(): boolean {
    return this.#connected && !this.nc.isClosed()
  }

  /** Reason why the server refuses to let this connection in again, or `undefined` if it does not or is not reachable. */
  get denied(): Denied | undefined {
    return this.#denied
  }

  /** Number of open subscriptions, for leak checks in tests. */
  get subscriptions(): number {
    return this.#subscriptions
  }

  get listeners(): number {
    return this.onReconnect.size + this.onDisconnect.size + this.onRefused.size
  }

  get maxPayload(): number {
    return this.nc.info?.max_payload ?? 1024 * 1024
  }

  report(error: unknown): void {
    this.#report(error)
  }

  /** Creates a unique subject below the identity's inbox. */
  inbox(): string {
    return createInbox(this.inboxPrefix)
  }

  /**
   * Sends a message. Returns false if the connection is closed or broken, or the message exceeds the server's limit. Messages of one event-loop turn
   * go out in one write: the client itself writes at every microtask, and with handlers that await, a system call per message at both ends was the
   * largest cost of a pass.
   */
  send(subject: string, data: Uint8Array, options: SendOptions = {}): boolean {
    if (!this.connected || data.length + (options.headers?.length ?? 0) > this.maxPayload) return false
    if (subject === '' || WHITE_SPACE.test(subject)) throw new TypeError(`not a subject: ${JSON.stringify(subject.slice(0, 80))}`)
    if (this.#raw?.sendCommand) {
      if (this.#buffer.messages === 0) setImmediate(this.#flush)
      this.#buffer.add(subject, data, options)
      if (this.#buffer.bytes >= GATHERED_BYTES) this.flush()
    } else this.nc.publish(subject, data, forClient(options))
    return true
  }

  /** Hands everything sent so far to the client. */
  flush(): void {
    if (this.#buffer.messages === 0) return
    const taken = this.#buffer.take()
    // On a broken connection these messages have already been settled as unknown.
    if (!this.connected) return
    for (const bytes of taken) guarded(this.#report, () => this.#raw?.sendCommand?.(bytes))
  }

  subscribe(
    subject: string,
    onMessage: (message: ReceivedMessage) => void,
    options: { queue?: string; onRefused?: (error: Error) => void } = {},
  ): Subscription {
    const subscription = this.nc.subscribe(subject, {
      ...(options.queue ? { queue: options.queue } : {}),
      callback: (error, message) => {
        guarded(this.#report, () => {
          if (!error) onMessage(message)
          else if (options.onRefused) options.onRefused(error)
          else this.#report(error)
        })
      },
    })
    this.#subscriptions += 1
    const sid = subscription.getID()
    this.#heard.set(sid, (message) => {
      if (!subscription.isClosed()) guarded(this.#report, () => onMessage(message))
    })
    void subscription.closed.then(() => {
      this.#heard.delete(sid)
      this.#subscriptions -= 1
    })
    return subscription
  }

  /** Replaces the client's parser, of which the client creates one per connection. If a later version hides it, the client parses everything. */
  #adopt(): void {
    const raw = this.#raw
    if (typeof raw?.parser?.state !== 'number' || raw.parser instanceof ProtocolReader) return
    raw.parser = new ProtocolReader(raw.parser, (sid) => this.#heard.get(sid))
  }

  async #listen(): Promise<void> {
    for await (const status of this.nc.status()) this.#onStatus(status)
    this.#disconnected()
  }

  #onStatus(status: Status): void {
    switch (status.type) {
      case 'disconnect':
      case 'close':
        this.#disconnected()
        break
      case 'reconnect':
        this.#connected = true
        this.#ended = undefined
        this.#denied = undefined
        this.#adopt()
        this.onReconnect.call(this.#report)
        break
      case 'error':
        if (status.error instanceof errors.PermissionViolationError && status.error.operation === 'publish') {
          this.onRefused.call(this.#report, status.error.subject)
        } else this.#onError(status.error)
        break
      default:
    }
  }

  /** Records a refusal. New credentials may be available by the next connection attempt, so only a refused attempt counts as denied. */
  #onError(error: Error): void {
    const text = error.message.toLowerCase()
    if (text.includes('revoked')) this.#ended = 'revoked'
    if (text.includes('expired')) this.#ended = 'expired'
    // An authentication timeout does not count: a busy server closes connections with it.
    if (!this.#connected && /authorization violation|revoked|expired/.test(text)) this.#denied = this.#ended ?? 'refused'
  }

  #disconnected(): void {
    if (!this.#connected) return
    this.#connected = false
    this.onDisconnect.call(this.#report)
  }
}
