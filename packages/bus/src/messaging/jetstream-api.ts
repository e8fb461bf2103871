import type { Reply, ReplyMux } from '../connection/reply-mux.js'
import { NOTHING } from '../connection/reply-mux.js'
import { BusReadError } from '../types/errors.js'
import { headersOf } from '../wire/headers.js'
import type { StoredMessage } from '../wire/messages.js'

/** Response of the JetStream API. */
export type ApiReply<T> = { ok: true; value: T } | { ok: false; err_code: number; code: number; description: string }

/** Server error codes that Passover acts on (the server's errors.json). */
export const API_ERROR = {
  wrongLastSequence: 10071,
  wrongLastSequenceUnknown: 10164,
  streamNotFound: 10059,
  consumerNotFound: 10014,
  messageNotFound: 10037,
  /** Errors of deleting a message that does not exist (any more). */
  messageGone: new Set([10037, 10043, 10057]),
  /** Also returned if the stream forbids deletes. To be certain, check whether the message still exists. */
  deleteFailed: 10057,
  consumerNameExists: 10013,
  consumerExists: 10148,
  streamNameInUse: 10058,
  storeFailed: 10077,
} as const

interface ApiError {
  code?: number
  err_code?: number
  description?: string
}

const ENCODER = new TextEncoder()
const DECODER = new TextDecoder()

/** Parses a body as a JSON object. Returns `undefined` if it is not one. */
export function jsonOf(data: Uint8Array): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(DECODER.decode(data))
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined
  } catch {
    return undefined
  }
}

/** Client of the JetStream API over the bus's own inbox. Throws BusReadError if there is no response. */
export class JetStreamApi {
  readonly #replies: ReplyMux
  readonly #timeout: number

  constructor(replies: ReplyMux, timeout_ms: number) {
    this.#replies = replies
    this.#timeout = timeout_ms
  }

  /** Calls the API. `call` is the subject after `$JS.API.`. */
  async call<T>(call: string, body?: unknown, timeout_ms = this.#timeout): Promise<ApiReply<T>> {
    const reply = await this.raw(call, body, timeout_ms)
    if ('none' in reply) throw new BusReadError(`${call}: ${reply.none}`, reply.none)
    const value = jsonOf(reply.message.data)
    if (!value) throw new BusReadError(`${call}: unreadable answer`, 'refused_by_server')
    const error = value.error as ApiError | undefined
    if (!error) return { ok: true, value: value as T }
    return { ok: false, err_code: error.err_code ?? 0, code: error.code ?? 500, description: error.description ?? '' }
  }

  /** Calls the API like `call`, but throws on an error of the server. */
  async must<T>(call: string, body?: unknown): Promise<T> {
    const reply = await this.call<T>(call, body)
    if (reply.ok) return reply.value
    throw new BusReadError(`${call}: ${reply.description} (${reply.err_code})`, 'refused_by_server')
  }

  raw(call: string, body?: unknown, timeout_ms = this.#timeout): Promise<Reply> {
    const data = body === undefined ? NOTHING : ENCODER.encode(JSON.stringify(body))
    return this.#replies.request({ subject: `$JS.API.${call}`, data, timeout_ms: Math.min(timeout_ms, this.#timeout) })
  }

  /** Reads the last message of an exact subject by direct get. */
  async direct(stream: string, subject: string, timeout_ms = this.#timeout): Promise<StoredMessage | undefined> {
    return directAnswer(subject, await this.raw(`DIRECT.GET.${stream}.${subject}`, undefined, timeout_ms))
  }

  /** Reads the message with a sequence by direct get. Not for agents. */
  async directAt(stream: string, sequence: number): Promise<StoredMessage | undefined> {
    return directAnswer('', await this.raw(`DIRECT.GET.${stream}`, { seq: sequence }))
  }

  /**
   * Reads the first message of a subject at or after a sequence by direct get. Not for agents: the query is in the body, where permissions cannot
   * restrict it.
   */
  async directNext(stream: string, query: { seq: number; next_by_subj: string }): Promise<StoredMessage | undefined> {
    return directAnswer(query.next_by_subj, await this.raw(`DIRECT.GET.${stream}`, query))
  }
}

function directAnswer(subject: string, reply: Reply): StoredMessage | undefined {
  if ('none' in reply) throw new BusReadError(`direct get of ${subject}: ${reply.none}`, reply.none)
  const headers = headersOf(reply.message)
  const { code, description } = headers.status
  if (code === 404) return undefined
  if (code !== 0) throw new BusReadError(`direct get of ${subject}: ${code} ${description}`, 'refused_by_server')
  return {
    subject: headers.last('Nats-Subject') ?? subject,
    sequence: Number(headers.last('Nats-Sequence')),
    time: Date.parse(headers.last('Nats-Time-Stamp') ?? ''),
    headers: headers.asStored(),
    data: reply.message.data,
  }
}
