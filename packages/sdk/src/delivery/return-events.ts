import { type PassOverError, shouldNotify, withTimeout } from '@passover/core'
import { keyText, type PassKey, type WorkOutput } from '@passover/schemas'
import { describeThrown } from '../errors/describe-thrown.js'
import type { Deps } from '../runtime/dependencies.js'
import type { ReturnOutcome } from './pending-return.js'
import { ConstraintLookup } from './return-constraints.js'

/** A pass of this agent that returned, as awaiting its handle gives it. */
export type ReturnedPass =
  | { pass: PassKey; output: WorkOutput; error?: undefined }
  | { pass: PassKey; error: PassOverError; output?: undefined }

export type ReturnListener = (returned: ReturnedPass) => void | Promise<void>

/** How long a closing agent waits for its listeners, ms: as long as for handlers, unless a worker says otherwise. */
const DRAIN_TIMEOUT_MS = 10_000
/** Several handles of one pass make one notice, as far as so many are remembered. */
const MAX_REMEMBERED = 10_000

/** Tells listeners of each return that policy wants told (notify_on_return), whether or not somebody awaits its handle. */
export class ReturnEvents {
  readonly #deps: Deps
  readonly #listeners = new Set<ReturnListener>()
  readonly #told = new Set<string>()
  readonly #telling = new Set<Promise<void>>()

  constructor(deps: Deps) {
    this.#deps = deps
  }

  get listening(): boolean {
    return this.#listeners.size > 0
  }

  /** Gives what ends the listening. */
  add(listener: ReturnListener): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  /** A stored return was delivered, or refused to its caller by a rule or a person. */
  emit(pass: PassKey, outcome: ReturnOutcome): void {
    // Only this process went away; the return is for another.
    if (!this.listening || (!outcome.ok && outcome.error.code === 'E040') || !this.#isNew(pass)) return
    const telling: Promise<void> = this.#tell(pass, outcome).finally(() => this.#telling.delete(telling))
    this.#telling.add(telling)
  }

  /** Waits until every listener was told what was to be told, at most so long: one that does not settle keeps no agent from closing. */
  async drain(): Promise<void> {
    if (this.#telling.size === 0) return
    await withTimeout(this.#deps.clock, DRAIN_TIMEOUT_MS, this.#settled())
    const left = this.#telling.size
    if (left > 0)
      this.#deps.say?.(`the agent closes, though after ${DRAIN_TIMEOUT_MS} ms its listeners are not done with ${left} of their returns`)
  }

  async #settled(): Promise<void> {
    while (this.#telling.size > 0) await Promise.all(this.#telling)
  }

  #isNew(pass: PassKey): boolean {
    const text = keyText(pass)
    if (this.#told.has(text)) return false
    this.#told.add(text)
    if (this.#told.size > MAX_REMEMBERED) for (const oldest of this.#told) return this.#told.delete(oldest)
    return true
  }

  async #tell(pass: PassKey, outcome: ReturnOutcome): Promise<void> {
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

  /** The policy stands in the work step; what ended before it had one is told. */
  async #isWanted(pass: PassKey, outcome: ReturnOutcome): Promise<boolean> {
    const terms = await new ConstraintLookup(this.#deps).control(pass).catch(() => undefined)
    if (!terms) return true
    return outcome.ok ? shouldNotify(outcome.output, terms.policy) : terms.policy.notify_on_return !== 'never'
  }
}
