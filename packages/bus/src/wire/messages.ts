import type { HEADER } from '@passover/schemas'

/** A header's name: one of ours, or any. */
export type HeaderName = (typeof HEADER)[keyof typeof HEADER] | (string & {})

/** Read-only headers; of a repeated header `last` is the server's (forged ones come first). */
export interface MessageHeaders {
  get(name: HeaderName): string | undefined
  last(name: HeaderName): string | undefined
  /** All of them in stored order, repeats included; none that a read added. */
  pairs(): [string, string][]
  /** The block as it is stored, for those who keep it; `readHeaders` reads it again. */
  text(): string
}

/** A message as the stream stores it. */
export interface StoredMessage {
  subject: string
  sequence: number
  /** Server's time, ms. */
  time: number
  headers: MessageHeaders
  /** Empty for a headers-only reader. */
  data: Uint8Array
}

/** A message to store. Without a guard the server stores it whatever came before. */
export interface PublishMessage {
  subject: string
  headers?: Partial<Record<string, string>>
  data?: Uint8Array
  guard?: Guard
  /** How long its acknowledgment is waited for before its outcome is not known; else as long as the connection's other answers. */
  answer_ms?: number
}

/** The last message on `subject` (a filter) must be `sequence`; 0: there is none. */
export interface Guard {
  subject: string
  sequence: number
}

/** Anything but `stored` proves nothing but that I did not win: read the journal (docs/architecture/protocol.md#publishing-a-step). */
export type PublishResult =
  | { kind: 'stored'; sequence: number }
  /** The guard did not hold; in a cluster mostly without `last`. */
  | { kind: 'lost'; last?: number }
  /** The server will not take it: stream full, payload too large, subject closed, no permission; `exists`: the subject is written once. */
  | { kind: 'refused'; reason: 'full' | 'exists' | 'too_large' | 'closed' | 'permission' | 'other'; description: string }
  | { kind: 'unknown'; description: string }
