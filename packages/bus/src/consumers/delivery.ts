import { prefix } from '@passover/schemas'
import type { Connection } from '../connection/connection.js'
import type { Delivery } from '../types/deliveries.js'
import { headersOf, type RawHeaders } from '../wire/headers.js'
import type { ReceivedMessage } from '../wire/raw-message.js'

const TEXT = new TextEncoder()
const ACK = TEXT.encode('+ACK')
const WORKING = TEXT.encode('+WPI')
const NAK = TEXT.encode('-NAK')
const NANOS_PER_MS = 1_000_000

/** Values in the acknowledgment subject of a delivery. */
export interface AckTokens {
  delivered: number
  sequence: number
  consumer_sequence: number
  time: number
  pending: number
}

const ACK_SUBJECT = '$JS.ACK.'
const ZERO = 0x30
const SHORT_DOTS = 8
/** Number of digits of a nanosecond time below a millisecond. The whole value exceeds a safe integer. */
const NANO_DIGITS = 6
/** Indexes of the dots in the subject being parsed. */
const dots = new Array<number>(16).fill(0)

/** Parses `$JS.ACK.[<domain>.<account>.]<stream>.<consumer>.<delivered>.<sequence>.<consumer sequence>.<ns>.<pending>[.<random>]`. */
export function parseAck(reply: string): AckTokens | undefined {
  if (!reply.startsWith(ACK_SUBJECT)) return undefined
  const count = findDots(reply)
  if (count < SHORT_DOTS) return undefined
  const at = count > SHORT_DOTS ? 5 : 3
  return {
    delivered: whole(reply, at),
    sequence: whole(reply, at + 1),
    consumer_sequence: whole(reply, at + 2),
    time: whole(reply, at + 3, NANO_DIGITS),
    pending: whole(reply, at + 4),
  }
}

function findDots(text: string): number {
  let count = 0
  for (let i = text.indexOf('.'); i >= 0 && count < dots.length; i = text.indexOf('.', i + 1)) dots[count++] = i
  if (count < dots.length) dots[count] = text.length
  return count
}

/** Returns the number after the dot with that index, without its last `less` digits, or NaN if it is not a number. */
function whole(text: string, dot: number, less = 0): number {
  const from = (dots[dot] ?? 0) + 1
  const to = (dots[dot + 1] ?? 0) - less
  let value = to > from ? 0 : Number.NaN
  for (let i = from; i < to; i += 1) {
    const digit = text.charCodeAt(i) - ZERO
    value = digit >= 0 && digit <= 9 ? value * 10 + digit : Number.NaN
  }
  return value
}

/** A delivery over the client's message, answered at most once. Headers and data are parsed on first access. */
export class StreamDelivery implements Delivery {
  readonly sequence: number
  readonly time: number
  readonly delivered: number
  readonly consumer_sequence: number
  /** Number of the consumer's messages after this one. */
  readonly pending: number
  readonly #message: ReceivedMessage
  readonly #reply: string
  readonly #link: Connection
  #headers: RawHeaders | undefined
  #data: Uint8Array | undefined
  #answered = false

  constructor(message: ReceivedMessage, reply: string, { link, tokens }: { link: Connection; tokens: AckTokens }) {
    this.sequence = tokens.sequence
    this.time = tokens.time
    this.delivered = tokens.delivered
    this.consumer_sequence = tokens.consumer_sequence
    this.pending = tokens.pending
    this.#message = message
    this.#reply = reply
    this.#link = link
  }

  get subject(): string {
    return this.#message.subject
  }
  get headers(): RawHeaders {
    this.#headers ??= headersOf(this.#message)
    return this.#headers
  }
  get data(): Uint8Array {
    this.#data ??= this.#message.data
    return this.#data
  }

  ack(): void {
    this.#answer(ACK)
  }
  working(): void {
    if (!this.#answered) this.#link.send(this.#reply, WORKING)
  }
  nak(delay_ms?: number): void {
    this.#answer(delay_ms ? TEXT.encode(`-NAK ${JSON.stringify({ delay: Math.round(delay_ms * NANOS_PER_MS) })}`) : NAK)
  }
  term(reason?: string): void {
    this.#answer(TEXT.encode(reason ? `+TERM ${prefix(reason.replace(/[\r\n]+/g, ' '), 512)}` : '+TERM'))
  }

  #answer(body: Uint8Array): void {
    if (this.#answered) return
    this.#answered = true
    this.#link.send(this.#reply, body)
  }
}
