import type { LiveSubscription, ReceivedReturn } from '@passover/bus'
import { withTimeout } from '@passover/core'
import type { PassKey } from '@passover/schemas'
import { subscribeError, unreachableError } from '../journal/return-errors.js'
import type { Deps } from '../runtime/dependencies.js'

const UNREACHABLE_TIMEOUT_MS = 5_000

export interface SubscriptionHandlers {
  heard: (heard: ReceivedReturn) => void
  /** Something came in a return's place that was none. */
  suspect: (key: PassKey) => void
  /** Whether that return is waited for, or being handed over. */
  waited: (key: PassKey, returned: number) => boolean
  /** A pass does not go straight from its work to its return. */
  detour: (key: PassKey) => void
}

/** The process's own subscription, for all ids made here. */
export class ReturnSubscription implements AsyncDisposable {
  readonly #deps: Deps
  readonly #name: string
  readonly #prefix: string
  readonly #listener: SubscriptionHandlers
  #hearing: Promise<LiveSubscription[]> | undefined
  #ready = false
  #hearsDetours = false

  constructor(deps: Deps, ids: { name: string; prefix: string }, listener: SubscriptionHandlers) {
    this.#deps = deps
    this.#name = ids.name
    this.#prefix = ids.prefix
    this.#listener = listener
  }

  /** Whether `listen` has been here: nothing is to be waited for. */
  get ready(): boolean {
    return this.#ready
  }

  /** Whether held steps and fences are heard: else no return is believed unread. */
  get hearsDetours(): boolean {
    return this.#hearsDetours
  }

  /** E040 when the server does not say within 5 s, E013 when it does not permit it. */
  async listen(): Promise<void> {
    this.#hearing ??= this.#hear()
    try {
      const hearing = await withTimeout(this.#deps.clock, UNREACHABLE_TIMEOUT_MS, this.#hearing)
      if (!hearing) throw unreachableError('the server did not answer within 5 s')
      this.#ready = true
    } catch (error) {
      this.#hearing = undefined
      throw subscribeError(error)
    }
  }

  async #hear(): Promise<LiveSubscription[]> {
    const { bus } = this.#deps
    const { heard, suspect, waited, detour } = this.#listener
    // Permissions of an older installation may refuse these.
    const detours = bus.subscribeIntermediateSteps(this.#name, detour).catch(() => undefined)
    const returns = await bus.subscribeReturns(this.#name, this.#prefix, heard, { onSuspect: suspect, isWaited: waited })
    const also = await detours
    this.#hearsDetours = also !== undefined
    return also ? [returns, also] : [returns]
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const hearings = (await this.#hearing?.catch(() => undefined)) ?? []
    await Promise.all(hearings.map((hearing) => hearing[Symbol.asyncDispose]()))
  }
}
