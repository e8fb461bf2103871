import type { LiveSubscription, ReceivedReturn } from '@passover/bus'
import { withTimeout } from '@passover/core'
import type { PassKey } from '@passover/schemas'
import { subscribeError, unreachableError } from '../journal/return-errors.js'
import type { Deps } from '../runtime/dependencies.js'

const UNREACHABLE_TIMEOUT_MS = 5_000

export interface SubscriptionHandlers {
  onReturn: (received: ReceivedReturn) => void
  /** Called for a message on the subject of a return that is not a valid return. */
  onSuspect: (key: PassKey) => void
  /** Returns true if the return is awaited or being delivered. */
  isWaited: (key: PassKey, returned: number) => boolean
  /** Called for a pass that has other steps between its work and its return. */
  onIntermediateStep: (key: PassKey) => void
}

/** Subscription of this process to the returns of all ids that it created. */
export class ReturnSubscription implements AsyncDisposable {
  readonly #deps: Deps
  readonly #name: string
  readonly #prefix: string
  readonly #handlers: SubscriptionHandlers
  #subscribing: Promise<LiveSubscription[]> | undefined
  #ready = false
  #receivesIntermediateSteps = false

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
  get receivesIntermediateSteps(): boolean {
    return this.#receivesIntermediateSteps
  }

  /** Subscribes. Throws E040 if the server does not answer within 5 s, and E013 if it denies the subscription. */
  async listen(): Promise<void> {
    this.#subscribing ??= this.#subscribe()
    try {
      const subscription = await withTimeout(this.#deps.clock, UNREACHABLE_TIMEOUT_MS, this.#subscribing)
      if (!subscription) throw unreachableError('the server did not answer within 5 s')
      this.#ready = true
    } catch (error) {
      this.#subscribing = undefined
      throw subscribeError(error)
    }
  }

  async #subscribe(): Promise<LiveSubscription[]> {
    const { bus } = this.#deps
    const { onReturn, onSuspect, isWaited, onIntermediateStep } = this.#handlers
    // The permissions of an older installation may deny this subscription.
    const subscribingSteps = bus.subscribeIntermediateSteps(this.#name, onIntermediateStep).catch(() => undefined)
    const returns = await bus.subscribeReturns(this.#name, this.#prefix, onReturn, { onSuspect, isWaited })
    const steps = await subscribingSteps
    this.#receivesIntermediateSteps = steps !== undefined
    return steps ? [returns, steps] : [returns]
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const subscriptions = (await this.#subscribing?.catch(() => undefined)) ?? []
    await Promise.all(subscriptions.map((subscription) => subscription[Symbol.asyncDispose]()))
  }
}
