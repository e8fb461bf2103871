import type { MsgHdrs } from '@nats-io/transport-node'

/** A message as the bus reads it. The client's own message type satisfies this interface. */
export interface ReceivedMessage {
  readonly subject: string
  readonly reply?: string | undefined
  readonly data: Uint8Array
  readonly headers?: MsgHdrs
}

/** Position of a message in its chunk: headers (if any) begin at `at`, `head` is their length in bytes, `size` the length of headers and body. */
export interface Place {
  reply: string | undefined
  at: number
  head: number
  size: number
}

/** A message inside a received chunk. Its body is sliced on access. */
export class Message implements ReceivedMessage {
  readonly subject: string
  readonly #bytes: Buffer
  readonly #place: Place

  constructor(bytes: Buffer, subject: string, place: Place) {
    this.subject = subject
    this.#bytes = bytes
    this.#place = place
  }

  get reply(): string | undefined {
    return this.#place.reply
  }

  get data(): Uint8Array {
    const { at, head, size } = this.#place
    return this.#bytes.subarray(at + head, at + size)
  }

  /** Returns the header block, or an empty string if it has none. */
  block(): string {
    const { at, head } = this.#place
    return head === 0 ? '' : this.#bytes.toString('utf8', at, at + head)
  }
}
