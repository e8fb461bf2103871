import type { Connection } from '../connection/connection.js'
import type { ReplyMux } from '../connection/reply-mux.js'
import { NOTHING } from '../connection/reply-mux.js'
import { GUARD_SEQUENCE, GUARD_SUBJECT } from '../subjects/subject-facts.js'
import type { NoReply } from '../types/errors.js'
import { encodeHeaders } from '../wire/headers.js'
import type { Guard, PublishMessage, PublishResult } from '../wire/messages.js'
import { API_ERROR, jsonOf } from './jetstream-api.js'

/** Storage of stream, account or host is used up (err_codes of the server). */
const FULL = new Set([10023, 10028, 10047, 10077, 10122])
const TOO_LARGE = new Set([10054, 10097])
/** The server has one code for a stream that is full and for a subject of which it keeps the first message. */
const WRITTEN_BEFORE = 'maximum messages per subject exceeded'
/** Room for the subject, the reply and the server's own headers. */
const OVERHEAD_BYTES = 512

interface PubAck {
  seq?: number
  error?: { code?: number; err_code?: number; description?: string }
}

/** Guarded publishing, pipelined over the bus's one inbox: as many at a time as the caller likes. */
export class Publisher {
  readonly #link: Connection
  readonly #replies: ReplyMux
  readonly #timeout: number
  /** Why the server stores nothing, by its last answer to a publish: its storage is full, or a stream is sealed. */
  refusing: string | undefined

  constructor(link: Connection, replies: ReplyMux, timeout_ms: number) {
    this.#link = link
    this.#replies = replies
    this.#timeout = timeout_ms
  }

  publish(message: PublishMessage): Promise<PublishResult> {
    return new Promise((resolve) => this.send(message, resolve))
  }

  /** `settle` is called exactly once, perhaps before this returns. */
  send(message: PublishMessage, settle: (outcome: PublishResult) => void): void {
    const { subject, guard } = message
    const data = message.data ?? NOTHING
    const headers = guard ? guarded(message, guard) : message.headers && encodeHeaders(message.headers)
    const limit = this.#link.maxPayload
    const size = sizeOf(data, headers, limit)
    if (size > limit) {
      settle({ kind: 'refused', reason: 'too_large', description: `${size} bytes, the server takes ${limit}` })
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

/** Refusals that concern every write. A stream or bucket at its own limit refuses only its own (10077). */
const REFUSING: Readonly<Record<number, string>> = {
  10023: 'the storage of the server or account is full: nothing is stored any more',
  10047: 'the storage of the server or account is full: nothing is stored any more',
  10109: 'the stream is sealed: nothing is stored in it any more',
}

function refusalIn(data: Uint8Array): string | undefined {
  return REFUSING[(jsonOf(data) as PubAck | undefined)?.error?.err_code ?? 0]
}

/** Without a subject the server takes the message's own. */
function guarded({ subject, headers }: PublishMessage, guard: Guard): string {
  const expected = `${GUARD_SEQUENCE}: ${guard.sequence}\r\n`
  return encodeHeaders(headers, guard.subject === subject ? expected : `${expected}${GUARD_SUBJECT}: ${guard.subject}\r\n`)
}

/** Of what the server counts. Characters are counted as bytes only where it may matter. */
function sizeOf(data: Uint8Array, headers: string | undefined, limit: number): number {
  const size = data.length + (headers?.length ?? 0) + OVERHEAD_BYTES
  return headers === undefined || size * 3 <= limit ? size : data.length + Buffer.byteLength(headers) + OVERHEAD_BYTES
}

function unanswered(none: NoReply, subject: string): PublishResult {
  switch (none) {
    case 'permission':
      return { kind: 'refused', reason: 'permission', description: `no permission to publish to ${subject}` }
    case 'no_responders':
      return { kind: 'refused', reason: 'closed', description: `no stream takes ${subject}` }
    case 'too_large':
      return { kind: 'refused', reason: 'too_large', description: 'more than the server takes' }
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

/** The sequence in `{"stream":"…","seq":123}`, as nearly every acknowledgment is; undefined: it may say more. */
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

/** Reads a publish acknowledgment. */
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
