import { createProblem, HttpProblem } from './problem.js'

export interface UploadLimits {
  /** Maximum number of request bodies read concurrently, in total and per token. */
  uploads: number
  uploads_a_token: number
  /** Maximum total bytes of these bodies. */
  uploads_bytes: number
  /** Milliseconds without a received byte after which reading a body is aborted. */
  stall_ms: number
}

const RETRY_MS = 1_000

/** Bounds the request bodies that are being read, which senders may stall indefinitely. */
export class Uploads {
  readonly #limits: UploadLimits
  readonly #tokens = new Map<string, number>()
  #under = 0
  #bytes = 0

  constructor(limits: UploadLimits) {
    this.#limits = limits
  }

  get stall_ms(): number {
    return this.#limits.stall_ms
  }

  /** Reads a body of at most `bytes` bytes. Throws 503 (E014) if too many are being read. */
  async take<T>(token: string, bytes: number, read: () => Promise<T>): Promise<T> {
    const { uploads, uploads_a_token, uploads_bytes } = this.#limits
    const own = this.#tokens.get(token) ?? 0
    if (own >= uploads_a_token) throw busy(`${own} bodies of this token are being read`)
    if (this.#under >= uploads || (this.#under > 0 && this.#bytes + bytes > uploads_bytes)) throw busy('too many bodies are being read')
    this.#tokens.set(token, own + 1)
    this.#under++
    this.#bytes += bytes
    try {
      return await read()
    } finally {
      this.#under--
      this.#bytes -= bytes
      const left = (this.#tokens.get(token) ?? 1) - 1
      if (left > 0) this.#tokens.set(token, left)
      else this.#tokens.delete(token)
    }
  }
}

function busy(detail: string): HttpProblem {
  const hint = 'send fewer requests at the same time, or try again'
  return new HttpProblem(createProblem(503, { code: 'E014', detail, hint, retry_after_ms: RETRY_MS }), { connection: 'close' })
}

/** Creates a 408 problem: the sender stopped sending. */
export function stalled(ms: number): HttpProblem {
  const detail = `no data of the body arrived for ${ms / 1_000} s`
  return new HttpProblem(createProblem(408, { code: 'E005', detail, hint: 'send the whole body without a pause' }), { connection: 'close' })
}
