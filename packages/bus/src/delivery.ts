import type { Msg } from '@nats-io/transport-node'
import type { Delivery } from './bus.js'
import { headersOf, type RawHeaders } from './headers.js'
import type { Link } from './link.js'

const TEXT = new TextEncoder()
const ACK = TEXT.encode('+ACK')
const WORKING = TEXT.encode('+WPI')
const NAK = TEXT.encode('-NAK')
const NANOS_PER_MS = 1_000_000

/** What the acknowledgment subject of a delivery tells. */
export interface AckTokens {
  consumer: string
  delivered: number
  sequence: number
  consumer_sequence: number
  time: number
  pending: number
}

/** Parses `$JS.ACK.[<domain>.<account>.]<stream>.<consumer>.<delivered>.<sequence>.<consumer sequence>.<ns>.<pending>[.<random>]`. */
export function parseAck(reply: string): AckTokens | undefined {
  const tokens = reply.split('.')
  if (tokens[0] !== '$JS' || tokens[1] !== 'ACK' || tokens.length < 9) return undefined
  const at = tokens.length > 9 ? 4 : 2
  const [, consumer = '', delivered, sequence, consumerSequence, nanos = '', pending] = tokens.slice(at)
  return {
    consumer,
    delivered: Number(delivered),
    sequence: Number(sequence),
    consumer_sequence: Number(consumerSequence),
    // The last six digits are below a millisecond; the whole is too large for a number.
    time: Number(nanos.slice(0, -6)),
    pending: Number(pending),
  }
}

/** A delivery over the client's message, answered at most once. */
export class StreamDelivery implements Delivery {
  readonly subject: string
  readonly sequence: number
  readonly time: number
  readonly delivered: number
  readonly consumer_sequence: number
  readonly data: Uint8Array
  readonly headers: RawHeaders
  /** Messages of the consumer that follow this one. */
  readonly pending: number
  readonly #reply: string
  readonly #link: Link
  #answered = false

  constructor(message: Msg, tokens: AckTokens, link: Link) {
    this.subject = message.subject
    this.data = message.data
    this.headers = headersOf(message)
    this.sequence = tokens.sequence
    this.time = tokens.time
    this.delivered = tokens.delivered
    this.consumer_sequence = tokens.consumer_sequence
    this.pending = tokens.pending
    this.#reply = message.reply ?? ''
    this.#link = link
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
    this.#answer(TEXT.encode(reason ? `+TERM ${reason.replace(/[\r\n]+/g, ' ').slice(0, 512)}` : '+TERM'))
  }

  #answer(body: Uint8Array): void {
    if (this.#answered) return
    this.#answered = true
    this.#link.send(this.#reply, body)
  }
}
