import type { MsgHdrs } from '@nats-io/transport-node'

/** A message as the bus reads it; the client's own has all of this. */
export interface ReceivedMessage {
  readonly subject: string
  readonly reply?: string | undefined
  readonly data: Uint8Array
  readonly headers?: MsgHdrs
}

/** Where the parts of a message lie: its headers, if any, begin at `at`, and all of it is `size` bytes. */
export interface Place {
  reply: string | undefined
  at: number
  head: number
  size: number
}

/** A message within what the socket gave. Its body is cut out when it is asked for. */
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

  /** Its header block; empty: it has none. */
  block(): string {
    const { at, head } = this.#place
    return head === 0 ? '' : this.#bytes.toString('utf8', at, at + head)
  }
}
