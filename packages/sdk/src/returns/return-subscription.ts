import type { LiveSubscription, ReceivedReturn } from '@passover/bus'
import { withTimeout } from '@passover/core'
import type { PassKey } from '@passover/schemas'
import { subscribeError, unreachableError } from '../journal/return-errors.js'
import type { Deps } from '../runtime/dependencies.js'

const UNREACHABLE_TIMEOUT_MS = 5_000

export interface SubscriptionHandlers {
  heard: (heard: ReceivedReturn) => void
  /** Called for a message on the subject of a return that is not a valid return. */
  suspect: (key: PassKey) => void
  /** Returns true if the return is awaited or being delivered. */
  waited: (key: PassKey, returned: number) => boolean
  /** Called for a pass that has other steps between its work and its return. */
  detour: (key: PassKey) => void
}

/** Subscription of this process to the returns of all ids that it created. */
export class ReturnSubscription implements AsyncDisposable {
  readonly #deps: Deps
  readonly #name: string
  readonly #prefix: string
  readonly #handlers: SubscriptionHandlers
  #subscription: Promise<LiveSubscription[]> | undefined
  #ready = false
  #hearsDetours = false

  constructor(deps: Deps, ids: { name: string; prefix: string }, handlers: SubscriptionHandlers) {
    this.#deps = deps
    this.#name = ids.name
    this.#prefix = ids.prefix
    this.#handlers = handlers
  }

  /** True if `listen()` has completed, so that callers need not wait for it. */
  get ready(): boolean {
    return this.#ready
  }

  /** True if held steps and fences are received too. If not, every return must be confirmed by reading the journal. */
  get hearsDetours(): boolean {
    return this.#hearsDetours
  }

  /** Subscribes. Throws E040 if the server does not answer within 5 s, and E013 if it denies the subscription. */
  async listen(): Promise<void> {
    this.#subscription ??= this.#hear()
    try {
      const hearing = await withTimeout(this.#deps.clock, UNREACHABLE_TIMEOUT_MS, this.#subscription)
      if (!hearing) throw unreachableError('the server did not answer within 5 s')
      this.#ready = true
    } catch (error) {
      this.#subscription = undefined
      throw subscribeError(error)
    }
  }

  async #hear(): Promise<LiveSubscription[]> {
    const { bus } = this.#deps
    const { heard, suspect, waited, detour } = this.#handlers
    // The permissions of an older installation may deny this subscription.
    const detours = bus.subscribeIntermediateSteps(this.#name, detour).catch(() => undefined)
    const returns = await bus.subscribeReturns(this.#name, this.#prefix, heard, { onSuspect: suspect, isWaited: waited })
    const also = await detours
    this.#hearsDetours = also !== undefined
    return also ? [returns, also] : [returns]
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const hearings = (await this.#subscription?.catch(() => undefined)) ?? []
    await Promise.all(hearings.map((hearing) => hearing[Symbol.asyncDispose]()))
  }
}
