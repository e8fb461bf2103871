/**
 * Stage 6 of a pass, in the originator. In: requested passes, and the returns that the server republishes.
 * Out: each return, once it is certain that it counts, to its delivery (`delivery/deliver.ts`).
 */

import type { ReceivedReturn } from '@passover/bus'
import { HEADER, idPrefix, type PassKey } from '@passover/schemas'
import { AckPublisher } from '../delivery/ack-publisher.js'
import { ReturnDelivery } from '../delivery/deliver.js'
import { isBelievable, type PendingReturn, type ReturnOutcome } from '../delivery/pending-return.js'
import type { ReturnEvents } from '../delivery/return-events.js'
import { type IdWindow, viewRules } from '../journal/id-window.js'
import type { StoredReturn } from '../journal/poll.js'
import { agentClosedError, subscribeError } from '../journal/return-errors.js'
import type { Deps } from '../runtime/dependencies.js'
import { GRACE_MS } from './evaluate-answer.js'
import { JournalPoller, SHORT_DELAY_MS } from './journal-poller.js'
import { PendingReturns } from './pending-returns.js'
import { ReturnSubscription } from './return-subscription.js'

/** Milliseconds after a request is stored until its journal is read for the first time. */
const FIRST_POLL_MS = 3_000
const DEFAULT_TIMEOUT_MS = 30_000

/** Parameters of waiting for a pass. */
export interface WaitOptions {
  key: PassKey
  /** Digest of the request, set if the caller gave the id: the journal may belong to another request. */
  digest?: string | undefined
  /** True if the id was created here. Only then does the shared subscription of the process receive the return. */
  own_id: boolean
  /** True if the waiting code acknowledges the return itself. */
  skip_ack?: true | undefined
  /** True if the pass was requested by this call and a listener for returns was registered. */
  emit_event?: boolean | undefined
  /** Traceparent of the request, if it is traced. */
  traceparent?: string | undefined
}

export interface ReturnWaiterOptions {
  name: string
  instance: string
  window: IdWindow
  apply_in?: string | undefined
  /** Listeners that receive returns in addition to the callers that await them. */
  events?: ReturnEvents | undefined
}

/**
 * Waits for returns. Receives them on one subscription for all ids that were created here, and on a separate one for each given id. Reads the
 * journals of passes whose return it may have missed (docs/architecture/protocol.md#delivery-of-returns). Uses one periodic sweep for all passes.
 */
export class ReturnWaiter implements AsyncDisposable {
  readonly #deps: Deps
  readonly #name: string
  readonly #delivery: ReturnDelivery
  readonly #ackPublisher: AckPublisher
  readonly #pending = new PendingReturns()
  readonly #subscription: ReturnSubscription
  readonly #poller: JournalPoller
  #epoch = 0
  #closed = false
  readonly #removeListener: () => void
  readonly #window: IdWindow
  readonly #events: ReturnEvents | undefined

  constructor(deps: Deps, options: ReturnWaiterOptions) {
    this.#window = options.window
    this.#events = options.events
    this.#deps = deps
    this.#name = options.name
    const rules = viewRules(options.window, { trust_fences: false })
    this.#poller = new JournalPoller(
      deps,
      { rules, pending: this.#pending },
      { deliver: (pending, storedReturn) => this.#deliver(pending, storedReturn), end: (pending, outcome) => this.#end(pending, outcome) },
    )
    this.#ackPublisher = new AckPublisher(deps, options.name)
    this.#delivery = new ReturnDelivery(deps, { name: options.name, ackPublisher: this.#ackPublisher, directory: options.apply_in, rules })
    this.#subscription = new ReturnSubscription(
      deps,
      { name: options.name, prefix: idPrefix(options.instance) },
      { onReturn: this.#onReturn, onSuspect: this.#onSuspect, isWaited: this.isPending, onIntermediateStep: this.#onIntermediateStep },
    )
    this.#removeListener = deps.bus.onReconnect(() => this.#onReconnect())
  }

  /** Number of awaited passes, including those that await release. */
  get size(): number {
    return this.#pending.size + this.#delivery.size
  }

  /** True if `listen()` has completed, so that callers need not wait for it. */
  get listening(): boolean {
    return this.#subscription.ready
  }

  /** Subscribes to the returns of all ids that were created here. Throws E040 if the server does not answer within 5 s. */
  listen(): Promise<void> {
    return this.#subscription.listen()
  }

  /** Starts to wait for a pass. `settle` is called once. */
  register(options: WaitOptions, settle: (outcome: ReturnOutcome) => void): PendingReturn {
    const { key, digest, own_id, traceparent } = options
    const epoch = own_id && this.#deps.bus.connected ? this.#epoch : undefined
    const pending = this.#pending.add(
      { key, digest, epoch, skip_ack: options.skip_ack === true, emit_event: options.emit_event, traceparent },
      settle,
    )
    this.#poller.begin()
    return pending
  }

  /** Records that the request was stored. From now on the journal is read if the return does not arrive. */
  onPublished(pending: PendingReturn, sequence: number, timeout_ms: number | undefined): void {
    const { clock } = this.#deps
    pending.published = { sequence, at: clock.now() }
    pending.nextPollAt = clock.monotonic() + (pending.digest === undefined ? FIRST_POLL_MS : SHORT_DELAY_MS)
    pending.give_up_at = clock.monotonic() + (timeout_ms ?? DEFAULT_TIMEOUT_MS) + GRACE_MS
  }

  /**
   * Waits for a pass that another call published: subscribes to its id and reads its journal. Returns the state that the journal shows now. Waiting
   * for an unknown pass ends after `GRACE_MS`, unless its request is about to be sent. In that case the sender ends the wait.
   */
  async subscribeAndPoll(pending: PendingReturn, then?: 'send'): Promise<'settled' | 'begun' | 'nothing'> {
    const options = { onSuspect: this.#onSuspect, isWaited: this.isPending }
    const subscription = await this.#deps.bus
      .subscribeReturns(this.#name, pending.key.id, this.#onReturn, options)
      .catch((error: unknown) => {
        throw subscribeError(error)
      })
    if (pending.finished) await subscription[Symbol.asyncDispose]()
    else pending.subscription = subscription
    if (!then) this.#limitWait(pending)
    const result = await this.#poller.pollNow(pending)
    if (then && result.kind === 'unclear') this.#limitWait(pending)
    pending.nextPollAt = Math.min(pending.nextPollAt, this.#deps.clock.monotonic() + SHORT_DELAY_MS)
    if (pending.finished || result.kind === 'return' || result.kind === 'other_request') return 'settled'
    return result.kind === 'nothing' ? 'nothing' : 'begun'
  }

  #limitWait(pending: PendingReturn): void {
    pending.give_up_at = this.#deps.clock.monotonic() + GRACE_MS
  }

  /** Returns true if a return is awaited here, is being delivered, or was delivered but its acknowledgment is not stored yet. */
  readonly isPending = (key: PassKey, returned: number): boolean =>
    this.#pending.of(key).length > 0 || this.#delivery.has(key) || this.#ackPublisher.isPending(returned)

  /** Acknowledges a delivered return. Settles when the acknowledgment is stored. */
  acknowledge(returned: number): Promise<void> {
    return this.#ackPublisher.acknowledge(returned)
  }

  /** Stops waiting. */
  stopWaiting(pending: PendingReturn): void {
    pending.finished = true
    void pending.subscription?.[Symbol.asyncDispose]()
    this.#pending.remove(pending)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    this.#removeListener()
    this.#poller[Symbol.dispose]()
    for (const pending of [...this.#pending.all()]) this.#end(pending, { ok: false, error: agentClosedError() })
    await this.#delivery[Symbol.asyncDispose]()
    await this.#ackPublisher[Symbol.asyncDispose]()
    await this.#subscription[Symbol.asyncDispose]()
  }

  readonly #onReturn = (received: ReceivedReturn): void => {
    const waiting = this.#pending.of(received.key)
    if (waiting.length === 0) return
    const { by, stored } = received
    const { time, headers } = stored
    const returned = { by, time, attempt: Number(headers.get(HEADER.attempt)), guard: this.#deps.bus.subjects.guardOf(stored) }
    const { id_window_ms } = this.#window
    const now = { epoch: this.#epoch, clustered: !this.#subscription.receivesIntermediateSteps || this.#deps.bus.clustered, id_window_ms }
    for (const pending of waiting.slice()) {
      if (isBelievable(pending, returned, now)) this.#deliver(pending, storedReturnOf(received))
      else {
        pending.epoch = undefined
        this.#poller.pollSoon(pending)
      }
    }
  }

  /** Handles a pass that has other steps between its work and its return: its return must be confirmed by reading the journal. */
  readonly #onIntermediateStep = (key: PassKey): void => {
    for (const pending of this.#pending.of(key)) pending.epoch = undefined
  }

  readonly #onSuspect = (key: PassKey): void => {
    for (const pending of this.#pending.of(key)) this.#poller.pollSoon(pending)
  }

  #onReconnect(): void {
    this.#epoch += 1
    this.#poller.pollAll()
  }

  #deliver(pending: PendingReturn, storedReturn: StoredReturn): void {
    this.stopWaiting(pending)
    this.#delivery.deliver(this.#withEvents(pending), storedReturn, () => {
      if (this.#closed) {
        pending.settle({ ok: false, error: agentClosedError() })
        return
      }
      // The return could not be read completely: wait for it again.
      const { key, digest, skip_ack, emit_event, traceparent } = pending
      const repeated = this.register(
        { key, digest, own_id: false, skip_ack: skip_ack || undefined, emit_event, traceparent },
        pending.settle,
      )
      Object.assign(repeated, {
        published: pending.published,
        begun: true,
        give_up_at: pending.give_up_at,
        nextPollAt: this.#deps.clock.monotonic() + SHORT_DELAY_MS,
      })
    })
  }

  /**
   * Makes listeners receive the return as well. They do not receive returns of passes that were only awaited again by id, or returns that were kept
   * while the agent was away.
   */
  #withEvents(pending: PendingReturn): PendingReturn {
    const events = this.#events
    if (!events || !pending.emit_event) return pending
    const settle = (outcome: ReturnOutcome): void => {
      events.emit(pending.key, outcome)
      pending.settle(outcome)
    }
    return { ...pending, settle }
  }

  #end(pending: PendingReturn, outcome: ReturnOutcome): void {
    if (pending.finished) return
    this.stopWaiting(pending)
    pending.settle(outcome)
  }
}

function storedReturnOf({ by, stored }: ReceivedReturn): StoredReturn {
  return { by, sequence: stored.sequence, time: stored.time, data: stored.data, content_type: stored.headers.get(HEADER.contentType) }
}
