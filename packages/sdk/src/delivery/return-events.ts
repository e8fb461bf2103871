import { type PassOverError, shouldNotify, withTimeout } from '@passover/core'
import { keyText, type PassKey, type WorkOutput } from '@passover/schemas'
import { describeThrown } from '../errors/describe-thrown.js'
import type { Deps } from '../runtime/dependencies.js'
import { ConstraintLookup } from './constraint-lookup.js'
import type { ReturnOutcome } from './pending-return.js'

/** A returned pass of this agent, with the same output or error as its handle. */
export type ReturnedPass =
  | { pass: PassKey; output: WorkOutput; error?: undefined }
  | { pass: PassKey; error: PassOverError; output?: undefined }

export type ReturnListener = (returned: ReturnedPass) => void | Promise<void>

/** Milliseconds for which a closing agent waits for its listeners. Equals the default `drainMs` of a worker. */
const DRAIN_TIMEOUT_MS = 10_000
/** Number of passes that are remembered so that several handles of a pass cause one event only. */
const MAX_REMEMBERED = 10_000

/** Emits returns to listeners according to the policy field `notify_on_return`, whether or not a caller awaits the handle. */
export class ReturnEvents {
  readonly #deps: Deps
  readonly #listeners = new Set<ReturnListener>()
  readonly #emitted = new Set<string>()
  readonly #emitting = new Set<Promise<void>>()

  constructor(deps: Deps) {
    this.#deps = deps
  }

  get listening(): boolean {
    return this.#listeners.size > 0
  }

  /** Adds a listener. Returns a function that removes it. */
  add(listener: ReturnListener): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  /** Emits a stored return that was delivered, or refused to its caller by a rule or a person. */
  emit(pass: PassKey, outcome: ReturnOutcome): void {
    // With E040, only this process failed to receive the return. Another process may still receive it.
    if (!this.listening || (!outcome.ok && outcome.error.code === 'E040') || !this.#isNew(pass)) return
    const emitting: Promise<void> = this.#notify(pass, outcome).finally(() => this.#emitting.delete(emitting))
    this.#emitting.add(emitting)
  }

  /**
   * Waits until the listeners have handled all returns, at most `DRAIN_TIMEOUT_MS`, so that a listener that never settles cannot keep the agent
   * from closing.
   */
  async drain(): Promise<void> {
    if (this.#emitting.size === 0) return
    await withTimeout(this.#deps.clock, DRAIN_TIMEOUT_MS, this.#settled())
    const left = this.#emitting.size
    if (left > 0) this.#deps.say?.(`the agent closes although its listeners have not finished ${left} returns after ${DRAIN_TIMEOUT_MS} ms`)
  }

  async #settled(): Promise<void> {
    while (this.#emitting.size > 0) await Promise.all(this.#emitting)
  }

  #isNew(pass: PassKey): boolean {
    const text = keyText(pass)
    if (this.#emitted.has(text)) return false
    this.#emitted.add(text)
    if (this.#emitted.size > MAX_REMEMBERED) for (const oldest of this.#emitted) return this.#emitted.delete(oldest)
    return true
  }

  async #notify(pass: PassKey, outcome: ReturnOutcome): Promise<void> {
    if (!(await this.#isWanted(pass, outcome))) return
    const returned: ReturnedPass = outcome.ok ? { pass, output: outcome.output } : { pass, error: outcome.error }
    for (const listener of this.#listeners) {
      try {
        await listener(returned)
      } catch (error) {
        this.#deps.say?.(`a listener of returns failed for ${pass.id}: ${describeThrown(error).message}`)
      }
    }
  }

  /** Returns true if the policy in the work step wants the event. A pass that ended before it had a work step is always emitted. */
  async #isWanted(pass: PassKey, outcome: ReturnOutcome): Promise<boolean> {
    const constraints = await new ConstraintLookup(this.#deps).control(pass).catch(() => undefined)
    if (!constraints) return true
    return outcome.ok ? shouldNotify(outcome.output, constraints.policy) : constraints.policy.notify_on_return !== 'never'
  }
}
