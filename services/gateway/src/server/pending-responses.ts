import type { ServerResponse } from 'node:http'
import { createProblem, HttpProblem } from '../http/problem.js'

export interface PendingResponseLimits {
  /** Maximum bytes that clients have not read yet, in total and per token. */
  answers_bytes: number
  answers_bytes_a_token: number
  /** Milliseconds without progress after which a connection is closed. */
  slow_ms: number
}

/** Responses up to this size are never refused, so that health checks and problems get through. */
const ALWAYS_SENT_BYTES = 16 * 1024
const RETRY_MS = 1_000

/** Bounds the memory that unread responses take. */
export class PendingResponses {
  readonly #limits: PendingResponseLimits
  readonly #tokens = new Map<string, number>()
  #bytes = 0

  constructor(limits: PendingResponseLimits) {
    this.#limits = limits
  }

  /** Counts a response until the client has read it or its connection ends. Throws 503 (E014) if too many bytes are pending. */
  send(token: string, bytes: number, outgoing: ServerResponse): void {
    const { answers_bytes, answers_bytes_a_token, slow_ms } = this.#limits
    const own = this.#tokens.get(token) ?? 0
    const fills = (waiting: number, most: number) => waiting > 0 && waiting + bytes > most
    const fillsOwn = fills(own, answers_bytes_a_token)
    if (bytes > ALWAYS_SENT_BYTES && (fillsOwn || fills(this.#bytes, answers_bytes))) {
      const detail = fillsOwn ? 'unread responses to this token are pending' : 'too many unread responses are pending'
      throw new HttpProblem(createProblem(503, { code: 'E014', detail, hint: 'read them, or try again later', retry_after_ms: RETRY_MS }))
    }
    if (outgoing.closed || outgoing.destroyed) return
    this.#tokens.set(token, own + bytes)
    this.#bytes += bytes
    // The timeout counts from the last progress. The server restores its own timeout when the response is complete.
    outgoing.socket?.setTimeout(slow_ms)
    outgoing.once('close', () => this.#taken(token, bytes))
  }

  #taken(token: string, bytes: number): void {
    this.#bytes -= bytes
    const left = (this.#tokens.get(token) ?? bytes) - bytes
    if (left > 0) this.#tokens.set(token, left)
    else this.#tokens.delete(token)
  }
}
