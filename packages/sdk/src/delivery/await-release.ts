import { PassOverError, releaseDenied, releaseExpired } from '@passover/core'
import { isSamePass, type PassKey, sha256 } from '@passover/schemas'
import { askAudit, type StoredReturn } from '../journal/poll.js'
import type { Deps } from '../runtime/dependencies.js'

const POLL_INTERVAL_MS = 5_000
/** Milliseconds after expiry to wait longer for a decision, because the audit service may get a decision late that was made in time. */
const GRACE_MS = 1_000
/**
 * Milliseconds after expiry after which waiting ends if the audit service does not answer. Without its answer it is unknown whether a person decided.
 */
const UNANSWERED_TIMEOUT_MS = 30_000

/** An output that is held back until a person releases it. */
export interface HeldReturn {
  key: PassKey
  /** Reason why it is not delivered automatically. */
  why: string
  storedReturn: StoredReturn
  /** Time of expiry, in server ms. */
  expires_at: number
  deliver: () => void
  refuse: (error: PassOverError) => void
}

/**
 * Waits for decisions on held-back returns. Asks the audit service for the decision when a hint arrives, and every few seconds in addition
 * (docs/architecture/audit-archive.md#answers). A denied or expired return fails with E013.
 */
export class ReleaseWaiter implements AsyncDisposable {
  readonly #deps: Deps
  readonly #name: string
  readonly #held = new Map<HeldReturn, string>()
  #hints: Promise<AsyncDisposable> | undefined
  #timer: Disposable | undefined
  #asking = false
  #isAskRequested = false
  #closed = false

  constructor(deps: Deps, name: string) {
    this.#deps = deps
    this.#name = name
  }

  get size(): number {
    return this.#held.size
  }

  has(key: PassKey): boolean {
    for (const held of this.#held.keys()) if (isSamePass(held.key, key)) return true
    return false
  }

  wait(held: HeldReturn): void {
    if (this.#closed) {
      held.refuse(closedError(held.key))
      return
    }
    this.#held.set(held, sha256(held.storedReturn.data))
    this.#hints ??= this.#deps.bus.onDecided(this.#name, () => void this.#askAll())
    this.#hints.catch(() => {
      this.#hints = undefined
    })
    void this.#askAll()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true
    this.#timer?.[Symbol.dispose]()
    for (const held of this.#held.keys()) held.refuse(closedError(held.key))
    this.#held.clear()
    const hints = await this.#hints?.catch(() => undefined)
    await hints?.[Symbol.asyncDispose]()
  }

  async #askAll(): Promise<void> {
    this.#isAskRequested = true
    if (this.#asking) return
    this.#asking = true
    this.#timer?.[Symbol.dispose]()
    while (this.#isAskRequested && !this.#closed) {
      this.#isAskRequested = false
      for (const [held, digest] of [...this.#held]) await this.#askAbout(held, digest)
    }
    this.#asking = false
    if (this.#held.size > 0 && !this.#closed) this.#timer = this.#deps.clock.after(this.#untilNext(), () => void this.#askAll())
  }

  /** Returns the milliseconds until the next query: `POLL_INTERVAL_MS`, or less if a return expires sooner. */
  #untilNext(): number {
    let next = POLL_INTERVAL_MS
    for (const { expires_at } of this.#held.keys()) {
      const left = expires_at + GRACE_MS - this.#deps.clock.now()
      if (left > 0) next = Math.min(next, left)
    }
    return next
  }

  async #askAbout(held: HeldReturn, digest: string): Promise<void> {
    const answer = await askAudit(this.#deps.bus, held.key)
    if (!this.#held.has(held)) return
    const decision =
      answer.kind === 'pass' ? answer.pass.decisions.find((one) => one.item === 'return' && one.digest === digest) : undefined
    const { bus, clock } = this.#deps
    // A local clock that was never compared with the server's may be minutes fast: it says of nothing that it has expired.
    const late = bus.clockKnown ? clock.now() - held.expires_at : Number.NEGATIVE_INFINITY
    if (!decision && late < (answer.kind === 'unanswered' ? UNANSWERED_TIMEOUT_MS : GRACE_MS)) return
    this.#held.delete(held)
    if (decision?.verdict === 'approve') return held.deliver()
    held.refuse(decision ? deniedError(held, decision) : expiredError(held))
  }
}

function deniedError({ key }: HeldReturn, decision: { person: string; reason?: string | undefined }): PassOverError {
  const { code, message, details } = releaseDenied(decision)
  return new PassOverError(code, message, { ...key, ...details })
}

function expiredError(held: HeldReturn): PassOverError {
  const { code, message, details } = releaseExpired(held.why)
  return new PassOverError(code, message, { ...held.key, ...details })
}

function closedError(key: PassKey): PassOverError {
  return new PassOverError('E040', 'the agent was closed while the output waited for its release; request the same id again', { ...key })
}
