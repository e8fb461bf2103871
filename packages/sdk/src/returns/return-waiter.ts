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
  quiet?: true | undefined
  /** True if the pass was requested by this call and a listener for returns was registered. */
  noticed?: boolean | undefined
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
  readonly #ear: ReturnSubscription
  readonly #poller: JournalPoller
  #epoch = 0
  #closed = false
  readonly #undo: () => void
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
      { deliver: (awaited, found) => this.#deliver(awaited, found), end: (awaited, outcome) => this.#end(awaited, outcome) },
    )
    this.#ackPublisher = new AckPublisher(deps, options.name)
    this.#delivery = new ReturnDelivery(deps, { name: options.name, ackPublisher: this.#ackPublisher, directory: options.apply_in, rules })
    this.#ear = new ReturnSubscription(
      deps,
      { name: options.name, prefix: idPrefix(options.instance) },
      { heard: this.#heard, suspect: this.#suspect, waited: this.holds, detour: this.#detour },
    )
    this.#undo = deps.bus.onReconnect(() => this.#missed())
  }

  /** Number of awaited passes, including those that await release. */
  get size(): number {
    return this.#pending.size + this.#delivery.size
  }

  /** True if `listen()` has completed, so that callers need not wait for it. */
  get listening(): boolean {
    return this.#ear.ready
  }

  /** Subscribes to the returns of all ids that were created here. Throws E040 if the server does not answer within 5 s. */
  listen(): Promise<void> {
    return this.#ear.listen()
  }

  /** Starts to wait for a pass. `settle` is called once. */
  expect(expectation: WaitOptions, settle: (outcome: ReturnOutcome) => void): PendingReturn {
    const { key, digest, own_id, traceparent } = expectation
    const epoch = own_id && this.#deps.bus.connected ? this.#epoch : undefined
    const awaited = this.#pending.add(
      { key, digest, epoch, quiet: expectation.quiet === true, noticed: expectation.noticed, traceparent },
      settle,
    )
    this.#poller.begin()
    return awaited
  }

  /** Records that the request was stored. From now on the journal is read if the return does not arrive. */
  published(awaited: PendingReturn, sequence: number, timeout_ms: number | undefined): void {
    const { clock } = this.#deps
    awaited.published = { sequence, at: clock.now() }
    awaited.nextPollAt = clock.monotonic() + (awaited.digest === undefined ? FIRST_POLL_MS : SHORT_DELAY_MS)
    awaited.give_up_at = clock.now() + (timeout_ms ?? DEFAULT_TIMEOUT_MS) + GRACE_MS
  }

  /**
   * Waits for a pass that another call published: subscribes to its id and reads its journal. Returns the state that the journal shows now. Waiting
   * for an unknown pass ends after `GRACE_MS`, unless its request is about to be sent. In that case the sender ends the wait.
   */
  async adopt(awaited: PendingReturn, then?: 'send'): Promise<'settled' | 'begun' | 'nothing'> {
    const also = { onSuspect: this.#suspect, isWaited: this.holds }
    const hearing = await this.#deps.bus.subscribeReturns(this.#name, awaited.key.id, this.#heard, also).catch((error: unknown) => {
      throw subscribeError(error)
    })
    if (awaited.finished) await hearing[Symbol.asyncDispose]()
    else awaited.subscription = hearing
    if (!then) this.#giveUpSoon(awaited)
    const found = await this.#poller.first(awaited)
    if (then && found.kind === 'unclear') this.#giveUpSoon(awaited)
    awaited.nextPollAt = Math.min(awaited.nextPollAt, this.#deps.clock.monotonic() + SHORT_DELAY_MS)
    if (awaited.finished || found.kind === 'return' || found.kind === 'other_request') return 'settled'
    return found.kind === 'nothing' ? 'nothing' : 'begun'
  }

  #giveUpSoon(awaited: PendingReturn): void {
    awaited.give_up_at = this.#deps.clock.now() + GRACE_MS
  }

  /** Returns true if a return is awaited here, is being delivered, or was delivered but its acknowledgment is not stored yet. */
  readonly holds = (key: PassKey, returned: number): boolean =>
    this.#pending.of(key).length > 0 || this.#delivery.has(key) || this.#ackPublisher.isPending(returned)

  /** Acknowledges a delivered return. Settles when the acknowledgment is stored. */
  acknowledged(returned: number): Promise<void> {
    return this.#ackPublisher.acknowledge(returned)
  }

  /** Stops waiting. */
  forget(awaited: PendingReturn): void {
    awaited.finished = true
    void awaited.subscription?.[Symbol.asyncDispose]()
    this.#pending.remove(awaited)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    this.#undo()
    this.#poller[Symbol.dispose]()
    for (const awaited of [...this.#pending.all()]) this.#end(awaited, { ok: false, error: agentClosedError() })
    await this.#delivery[Symbol.asyncDispose]()
    await this.#ackPublisher[Symbol.asyncDispose]()
    await this.#ear[Symbol.asyncDispose]()
  }

  readonly #heard = (heard: ReceivedReturn): void => {
    const waiting = this.#pending.of(heard.key)
    if (waiting.length === 0) return
    const { by, stored } = heard
    const { time, headers } = stored
    const returned = { by, time, attempt: Number(headers.get(HEADER.attempt)), guard: this.#deps.bus.subjects.guardOf(stored) }
    const { id_window_ms } = this.#window
    const now = { epoch: this.#epoch, clustered: !this.#ear.hearsDetours || this.#deps.bus.clustered, id_window_ms }
    for (const awaited of waiting.slice()) {
      if (isBelievable(awaited, returned, now)) this.#deliver(awaited, foundOf(heard))
      else {
        awaited.epoch = undefined
        this.#poller.hurry(awaited)
      }
    }
  }

  /** Handles a pass that has other steps between its work and its return: its return must be confirmed by reading the journal. */
  readonly #detour = (key: PassKey): void => {
    for (const awaited of this.#pending.of(key)) awaited.epoch = undefined
  }

  readonly #suspect = (key: PassKey): void => {
    for (const awaited of this.#pending.of(key)) this.#poller.hurry(awaited)
  }

  #missed(): void {
    this.#epoch += 1
    this.#poller.all()
  }

  #deliver(awaited: PendingReturn, found: StoredReturn): void {
    this.forget(awaited)
    this.#delivery.deliver(this.#noticed(awaited), found, () => {
      if (this.#closed) {
        awaited.settle({ ok: false, error: agentClosedError() })
        return
      }
      // The return could not be read completely: wait for it again.
      const { key, digest, quiet, noticed, traceparent } = awaited
      const again = this.expect({ key, digest, own_id: false, quiet: quiet || undefined, noticed, traceparent }, awaited.settle)
      Object.assign(again, {
        published: awaited.published,
        begun: true,
        give_up_at: awaited.give_up_at,
        nextPollAt: this.#deps.clock.monotonic() + SHORT_DELAY_MS,
      })
    })
  }

  /**
   * Makes listeners receive the return as well. They do not receive returns of passes that were only awaited again by id, or returns that were kept
   * while the agent was away.
   */
  #noticed(awaited: PendingReturn): PendingReturn {
    const events = this.#events
    if (!events || !awaited.noticed) return awaited
    const settle = (outcome: ReturnOutcome): void => {
      events.emit(awaited.key, outcome)
      awaited.settle(outcome)
    }
    return { ...awaited, settle }
  }

  #end(awaited: PendingReturn, outcome: ReturnOutcome): void {
    if (awaited.finished) return
    this.forget(awaited)
    awaited.settle(outcome)
  }
}

function foundOf({ by, stored }: ReceivedReturn): StoredReturn {
  return { by, sequence: stored.sequence, time: stored.time, data: stored.data, content_type: stored.headers.get(HEADER.contentType) }
}
