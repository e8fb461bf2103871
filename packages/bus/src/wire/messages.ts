import type { HEADER } from '@passover/schemas'

/** Name of a header: one of ours, or any other. */
export type HeaderName = (typeof HEADER)[keyof typeof HEADER] | (string & {})

/** Read-only headers. For a repeated header `last` is the server's value (forged ones come first). */
export interface MessageHeaders {
  get(name: HeaderName): string | undefined
  last(name: HeaderName): string | undefined
  /** All stored headers in order, repeats included, without headers added by a read. */
  pairs(): [string, string][]
  /** The block as stored, for callers that keep it; `readHeaders` parses it again. */
  text(): string
}

/** A message as stored in the stream. */
export interface StoredMessage {
  subject: string
  sequence: number
  /** Server time, ms. */
  time: number
  headers: MessageHeaders
  /** Body; empty in headers-only reads. */
  data: Uint8Array
}

/** A message to store. Without a guard the server stores it unconditionally. */
export interface PublishMessage {
  subject: string
  headers?: Partial<Record<string, string>>
  data?: Uint8Array
  guard?: Guard
  /** Milliseconds to wait for the acknowledgment before the outcome is unknown. Default and maximum: the timeout of the connection. */
  answer_ms?: number
}

/** Condition for storing: the last message on `subject` (a filter) must have this sequence; 0: there must be none. */
export interface Guard {
  subject: string
  sequence: number
}

/**
 * Outcome of a publish. Any other than `stored` does not prove that the message was not stored: read the journal
 * (docs/architecture/protocol.md#publishing-a-step).
 */
export type PublishResult =
  | { kind: 'stored'; sequence: number }
  /** The guard did not hold. In a cluster usually without `last`. */
  | { kind: 'lost'; last?: number }
  /** The server rejects it: stream full, payload too large, subject closed, no permission; `exists`: the subject can be written only once. */
  | { kind: 'refused'; reason: 'full' | 'exists' | 'too_large' | 'closed' | 'permission' | 'other'; description: string }
  | { kind: 'unknown'; description: string }
