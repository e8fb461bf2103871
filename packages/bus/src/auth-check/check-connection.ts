import { randomBytes } from 'node:crypto'
import type { Msg, MsgHdrs, NatsConnection } from '@nats-io/transport-node'
import { connect, errors, headers as makeHeaders } from '@nats-io/transport-node'
import { authentication, type Credentials, type TlsFiles, tlsOptions } from '../connection/credentials.js'
import { inboxPrefixOf } from '../subjects/subjects.js'
import { BusUnreachable } from '../types/errors.js'

/** An identity to connect as. */
export interface CheckIdentity {
  /** Name that the inbox prefix is derived from. */
  identity: string
  credentials?: Credentials | undefined
}

/** Headers to send, by name. */
export type CheckHeaders = Record<string, string>

/**
 * Result of a request: `answered` by the server or a service, `refused` by the permissions, or `nothing` (no subscriber,
 * or no answer within the timeout).
 */
export type Answer = { kind: 'answered'; message: Msg } | { kind: 'refused' } | { kind: 'nothing' }

const ANSWER_MS = 2_000
const CONNECT_MS = 5_000
const NO_RESPONDERS = 503

/** A plain client connection for probing: unlike the bus it does not retry, cache or interpret anything. */
export class CheckConnection implements AsyncDisposable {
  readonly identity: string
  readonly #nc: NatsConnection
  readonly #inbox: string
  readonly #waiting = new Map<string, (message: Msg) => void>()
  readonly #refused = new Set<string>()
  #count = 0

  private constructor(nc: NatsConnection, identity: string) {
    this.#nc = nc
    this.identity = identity
    this.#inbox = `${inboxPrefixOf(identity)}.${token()}`
    void this.#watchRefusals()
    nc.subscribe(`${this.#inbox}.*`, {
      callback: (error, message) => {
        if (!error) this.#waiting.get(message.subject)?.(message)
      },
    })
  }

  /** Connects. Throws BusUnreachable when the server does not accept the connection. */
  static async open(servers: string | string[], who: CheckIdentity, tls?: TlsFiles): Promise<CheckConnection> {
    try {
      const nc = await connect({
        servers,
        name: `passover auth check (${who.identity})`,
        inboxPrefix: inboxPrefixOf(who.identity),
        timeout: CONNECT_MS,
        reconnect: false,
        ...authentication(who.credentials),
        ...tlsOptions(tls),
      })
      return new CheckConnection(nc, who.identity)
    } catch (error) {
      const text = error instanceof Error ? error.message : String(error)
      throw new BusUnreachable(
        `cannot connect as ${who.identity}: ${text}`,
        'Check the server address and the credentials.',
        error,
        /authorization|authentication/i.test(text),
      )
    }
  }

  /** Returns an unused subject below this connection's own inbox. */
  ownInbox(): string {
    this.#count += 1
    return `${this.#inbox}.${this.#count}`
  }

  /** Returns a subject that is the same in every check, for messages that are stored only once. */
  get steadyInbox(): string {
    return `${inboxPrefixOf(this.identity)}.auth-check`
  }

  /** Publishes with any reply subject. */
  publish(subject: string, data: Uint8Array, options: { reply?: string; headers?: CheckHeaders } = {}): void {
    const { reply, headers } = options
    this.#nc.publish(subject, data, { ...(reply ? { reply } : {}), ...(headers ? { headers: asHeaders(headers) } : {}) })
  }

  /** Sends a request and waits for its answer in the own inbox. `answerIn` is for an answer that a header directs. */
  async request(
    subject: string,
    data: Uint8Array,
    options: { headers?: CheckHeaders; answerIn?: string; timeout_ms?: number } = {},
  ): Promise<Answer> {
    const inbox = options.answerIn ?? this.ownInbox()
    let timer: NodeJS.Timeout | undefined
    const answer = new Promise<Answer>((resolve) => {
      timer = setTimeout(() => resolve({ kind: 'nothing' }), options.timeout_ms ?? ANSWER_MS)
      const onAnswer = (message: Msg) => resolve(statusOf(message) === NO_RESPONDERS ? { kind: 'nothing' } : { kind: 'answered', message })
      this.#waiting.set(inbox, onAnswer)
    })
    this.publish(subject, data, { ...(options.answerIn ? {} : { reply: inbox }), ...(options.headers ? { headers: options.headers } : {}) })
    try {
      if ((await this.refusals()).has(`publish ${subject}`)) return { kind: 'refused' }
      return await answer
    } finally {
      clearTimeout(timer)
      this.#waiting.delete(inbox)
    }
  }

  /** Subscribes until the returned function is called. */
  hear(subject: string, onMessage: (message: Msg) => void): () => void {
    const subscription = this.#nc.subscribe(subject, {
      callback: (error, message) => {
        if (!error) onMessage(message)
      },
    })
    return () => subscription.unsubscribe()
  }

  /** Returns everything the server refused so far, as `publish <subject>` or `subscription <subject>`. */
  async refusals(): Promise<ReadonlySet<string>> {
    // The server sends a refusal before its answer to the ping; the client reports it one turn later.
    await this.#nc.flush()
    await new Promise((next) => setImmediate(next))
    return this.#refused
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#nc.close()
  }

  async #watchRefusals(): Promise<void> {
    for await (const status of this.#nc.status()) {
      if (status.type !== 'error' || !(status.error instanceof errors.PermissionViolationError)) continue
      this.#refused.add(`${status.error.operation} ${status.error.subject}`)
    }
  }
}

/** Returns a short random token. */
function token(): string {
  return randomBytes(8).toString('hex')
}

function statusOf(message: Msg): number {
  return message.data.length === 0 ? (message.headers?.code ?? 0) : 0
}

function asHeaders(given: CheckHeaders): MsgHdrs {
  const headers = makeHeaders()
  for (const [name, value] of Object.entries(given)) headers.set(name, value)
  return headers
}
