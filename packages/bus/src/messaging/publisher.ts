import type { Connection } from '../connection/connection.js'
import type { ReplyMux } from '../connection/reply-mux.js'
import { NOTHING } from '../connection/reply-mux.js'
import { GUARD_SEQUENCE, GUARD_SUBJECT } from '../subjects/subject-facts.js'
import type { NoReply } from '../types/errors.js'
import { encodeHeaders } from '../wire/headers.js'
import type { Guard, PublishMessage, PublishResult } from '../wire/messages.js'
import { API_ERROR, jsonOf } from './jetstream-api.js'

/** Error codes for exhausted storage of the stream, the account or the host. */
const FULL = new Set([10023, 10028, 10047, 10077, 10122])
const TOO_LARGE = new Set([10054, 10097])
/** Text of the error for a subject that keeps only its first message. The server uses the same code for a full stream. */
const WRITTEN_BEFORE = 'maximum messages per subject exceeded'
/** Bytes reserved for the subject, the reply subject and the server's own headers. */
const OVERHEAD_BYTES = 512

interface PubAck {
  seq?: number
  error?: { code?: number; err_code?: number; description?: string }
}

/** Publishes messages with guards, pipelined over the bus's one inbox: any number may be pending. */
export class Publisher {
  readonly #link: Connection
  readonly #replies: ReplyMux
  readonly #timeout: number
  /** Reason why the server stores nothing, as of its last response to a publish: its storage is full, or a stream is sealed. */
  refusing: string | undefined

  constructor(link: Connection, replies: ReplyMux, timeout_ms: number) {
    this.#link = link
    this.#replies = replies
    this.#timeout = timeout_ms
  }

  publish(message: PublishMessage): Promise<PublishResult> {
    return new Promise((resolve) => this.send(message, resolve))
  }

  /** Publishes a message. `settle` is called exactly once, possibly before this returns. */
  send(message: PublishMessage, settle: (outcome: PublishResult) => void): void {
    const { subject, guard } = message
    const data = message.data ?? NOTHING
    const headers = guard ? guarded(message, guard) : message.headers && encodeHeaders(message.headers)
    const limit = this.#link.maxPayload
    const size = sizeOf(data, headers, limit)
    if (size > limit) {
      settle({ kind: 'refused', reason: 'too_large', description: `${size} bytes, but the server accepts at most ${limit}` })
      return
    }
    const question = { subject, data, headers, timeout_ms: Math.min(message.answer_ms ?? this.#timeout, this.#timeout) }
    this.#replies.send(question, (reply) => settle('none' in reply ? unanswered(reply.none, subject) : this.#told(reply.message.data)))
  }

  #told(data: Uint8Array): PublishResult {
    const outcome = outcomeOf(data)
    if (outcome.kind === 'stored') this.refusing = undefined
    else if (outcome.kind === 'refused' || outcome.kind === 'unknown') this.refusing = refusalIn(data) ?? this.refusing
    return outcome
  }
}

/** Errors that affect every write. A stream or bucket at its own limit (10077) is not among them. */
const REFUSING: Readonly<Record<number, string>> = {
  10023: 'the storage of the server or account is full, so nothing can be stored',
  10047: 'the storage of the server or account is full, so nothing can be stored',
  10109: 'the stream is sealed, so nothing can be stored in it',
}

function refusalIn(data: Uint8Array): string | undefined {
  return REFUSING[(jsonOf(data) as PubAck | undefined)?.error?.err_code ?? 0]
}

/** Encodes the headers of a guarded publish. Without a guard subject the server uses the message's own. */
function guarded({ subject, headers }: PublishMessage, guard: Guard): string {
  const expected = `${GUARD_SEQUENCE}: ${guard.sequence}\r\n`
  return encodeHeaders(headers, guard.subject === subject ? expected : `${expected}${GUARD_SUBJECT}: ${guard.subject}\r\n`)
}

/** Returns the size that the server compares with its limit. Counts multi-byte characters only if the limit may be near. */
function sizeOf(data: Uint8Array, headers: string | undefined, limit: number): number {
  const size = data.length + (headers?.length ?? 0) + OVERHEAD_BYTES
  return headers === undefined || size * 3 <= limit ? size : data.length + Buffer.byteLength(headers) + OVERHEAD_BYTES
}

function unanswered(none: NoReply, subject: string): PublishResult {
  switch (none) {
    case 'permission':
      return { kind: 'refused', reason: 'permission', description: `no permission to publish to ${subject}` }
    case 'no_responders':
      return { kind: 'refused', reason: 'closed', description: `no stream has the subject ${subject}` }
    case 'too_large':
      return { kind: 'refused', reason: 'too_large', description: 'larger than the server accepts' }
    default:
      return { kind: 'unknown', description: none }
  }
}

const STREAM = Buffer.from('{"stream":"')
const SEQUENCE = Buffer.from('","seq":')
const QUOTE = 0x22
const ZERO = 0x30
const MAX_DIGITS = 15
const END = 0x7d

/** Parses the sequence of `{"stream":"…","seq":123}`, the form of nearly every acknowledgment. Returns `undefined` for any other form. */
function plainSequence(data: Uint8Array): number | undefined {
  const last = data.length - 1
  if (data[last] !== END) return undefined
  let value = 0
  let at = last - 1
  for (let unit = 1, digits = 0; digits < MAX_DIGITS; digits += 1, unit *= 10, at -= 1) {
    const digit = (data[at] ?? 0) - ZERO
    if (digit < 0 || digit > 9) break
    value += digit * unit
  }
  const from = at - SEQUENCE.length + 1
  if (at === last - 1 || from < STREAM.length || !standsAt(data, STREAM, 0) || !standsAt(data, SEQUENCE, from)) return undefined
  for (let i = STREAM.length; i < from; i += 1) if (data[i] === QUOTE) return undefined
  return value
}

function standsAt(data: Uint8Array, text: Uint8Array, from: number): boolean {
  for (let i = 0; i < text.length; i += 1) if (data[from + i] !== text[i]) return false
  return true
}

/** Parses a publish acknowledgment. */
export function outcomeOf(data: Uint8Array): PublishResult {
  const sequence = plainSequence(data)
  if (sequence !== undefined) return { kind: 'stored', sequence }
  const ack = jsonOf(data) as PubAck | undefined
  if (!ack) return { kind: 'unknown', description: 'unreadable acknowledgment' }
  if (!ack.error) {
    return typeof ack.seq === 'number'
      ? { kind: 'stored', sequence: ack.seq }
      : { kind: 'unknown', description: 'acknowledgment without a sequence' }
  }
  const { err_code = 0, code = 500, description = '' } = ack.error
  if (err_code === API_ERROR.wrongLastSequence) {
    const last = /(\d+)\s*$/.exec(description)?.[1]
    return last === undefined ? { kind: 'lost' } : { kind: 'lost', last: Number(last) }
  }
  if (err_code === API_ERROR.wrongLastSequenceUnknown) return { kind: 'lost' }
  if (err_code === API_ERROR.storeFailed && description === WRITTEN_BEFORE) return { kind: 'refused', reason: 'exists', description }
  if (FULL.has(err_code)) return { kind: 'refused', reason: 'full', description }
  if (TOO_LARGE.has(err_code)) return { kind: 'refused', reason: 'too_large', description }
  return code >= 500
    ? { kind: 'unknown', description: `${description} (${err_code})` }
    : { kind: 'refused', reason: 'other', description: `${description} (${err_code})` }
}
