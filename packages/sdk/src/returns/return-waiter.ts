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
import { ReturnSubscription } from './return-listener.js'

/** A return that was not heard by then is read. */
const FIRST_POLL_MS = 3_000
const DEFAULT_TIMEOUT_MS = 30_000

/** What is expected of a pass. */
export interface WaitOptions {
  key: PassKey
  /** Given where the id was: its journal may be another request's. */
  digest?: string | undefined
  /** Only heard on the process's own subscription when its id was made here. */
  own_id: boolean
  /** Who waits says by itself that it has the return. */
  quiet?: true | undefined
  /** It was asked for here and now, and somebody listened to returns. */
  noticed?: boolean | undefined
  /** Of its request, where that is traced. */
  traceparent?: string | undefined
}

export interface ReturnWaiterOptions {
  name: string
  instance: string
  window: IdWindow
  apply_in?: string | undefined
  /** Who is told of returns besides who waits for them. */
  notices?: ReturnEvents | undefined
}

/**
 * Waits for returns: hears them on one subscription for all ids made here and on one of its own for each given id, and reads what it
 * may have missed (docs/architecture/protocol.md#delivery-of-returns). One sweep, whatever the number of passes.
 */
export class ReturnWaiter implements AsyncDisposable {
  readonly #deps: Deps
  readonly #name: string
  readonly #delivering: ReturnDelivery
  readonly #acknowledging: AckPublisher
  readonly #waiting = new PendingReturns()
  readonly #ear: ReturnSubscription
  readonly #reading: JournalPoller
  #epoch = 0
  #closed = false
  readonly #undo: () => void
  readonly #window: IdWindow
  readonly #notices: ReturnEvents | undefined

  constructor(deps: Deps, options: ReturnWaiterOptions) {
    this.#window = options.window
    this.#notices = options.notices
    this.#deps = deps
    this.#name = options.name
    const rules = viewRules(options.window, { trust_fences: false })
    this.#reading = new JournalPoller(
      deps,
      { rules, waiting: this.#waiting },
      { deliver: (awaited, found) => this.#deliver(awaited, found), end: (awaited, outcome) => this.#end(awaited, outcome) },
    )
    this.#acknowledging = new AckPublisher(deps, options.name)
    this.#delivering = new ReturnDelivery(deps, {
      name: options.name,
      acknowledging: this.#acknowledging,
      directory: options.apply_in,
      rules,
    })
    this.#ear = new ReturnSubscription(
      deps,
      { name: options.name, prefix: idPrefix(options.instance) },
      { heard: this.#heard, suspect: this.#suspect, waited: this.holds, detour: this.#detour },
    )
    this.#undo = deps.bus.onReconnect(() => this.#missed())
  }

  /** Passes that are waited for, those that await release included. */
  get size(): number {
    return this.#waiting.size + this.#delivering.size
  }

  /** Whether `listen` has been here: nothing is to be waited for. */
  get listening(): boolean {
    return this.#ear.ready
  }

  /** Hears the returns of all ids made here. E040 when the server does not say within 5 s. */
  listen(): Promise<void> {
    return this.#ear.listen()
  }

  /** Waits for a pass from now on; `settle` is called once. */
  expect(expectation: WaitOptions, settle: (outcome: ReturnOutcome) => void): PendingReturn {
    const { key, digest, own_id, traceparent } = expectation
    const epoch = own_id && this.#deps.bus.connected ? this.#epoch : undefined
    const awaited = this.#waiting.add(
      { key, digest, epoch, quiet: expectation.quiet === true, noticed: expectation.noticed, traceparent },
      settle,
    )
    this.#reading.begin()
    return awaited
  }

  /** The request was stored: from now on its return is missed when it does not come. */
  published(awaited: PendingReturn, sequence: number, timeout_ms: number | undefined): void {
    const { clock } = this.#deps
    awaited.published = { sequence, at: clock.now() }
    awaited.nextPollAt = clock.monotonic() + (awaited.digest === undefined ? FIRST_POLL_MS : SHORT_DELAY_MS)
    awaited.give_up_at = clock.now() + (timeout_ms ?? DEFAULT_TIMEOUT_MS) + GRACE_MS
  }

  /**
   * Waits for a pass that others published: hears its id and reads it. Gives what its journal shows now. Of one that nobody knows it is soon
   * said so, unless its request is about to be sent: that is given up by who sends it.
   */
  async adopt(awaited: PendingReturn, then?: 'send'): Promise<'settled' | 'begun' | 'nothing'> {
    const also = { onSuspect: this.#suspect, isWaited: this.holds }
    const hearing = await this.#deps.bus.subscribeReturns(this.#name, awaited.key.id, this.#heard, also).catch((error: unknown) => {
      throw subscribeError(error)
    })
    if (awaited.finished) await hearing[Symbol.asyncDispose]()
    else awaited.subscription = hearing
    if (!then) this.#giveUpSoon(awaited)
    const found = await this.#reading.first(awaited)
    if (then && found.kind === 'unclear') this.#giveUpSoon(awaited)
    awaited.nextPollAt = Math.min(awaited.nextPollAt, this.#deps.clock.monotonic() + SHORT_DELAY_MS)
    if (awaited.finished || found.kind === 'return' || found.kind === 'other_request') return 'settled'
    return found.kind === 'nothing' ? 'nothing' : 'begun'
  }

  #giveUpSoon(awaited: PendingReturn): void {
    awaited.give_up_at = this.#deps.clock.now() + GRACE_MS
  }

  /** Whether a return is waited for here, is being handed over, or was and that is not said yet. */
  readonly holds = (key: PassKey, returned: number): boolean =>
    this.#waiting.of(key).length > 0 || this.#delivering.has(key) || this.#acknowledging.isPending(returned)

  /** Says that a return was handed over; settles when that is stored. */
  acknowledged(returned: number): Promise<void> {
    return this.#acknowledging.acknowledge(returned)
  }

  /** Stops waiting. */
  forget(awaited: PendingReturn): void {
    awaited.finished = true
    void awaited.subscription?.[Symbol.asyncDispose]()
    this.#waiting.remove(awaited)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    this.#undo()
    this.#reading[Symbol.dispose]()
    for (const awaited of [...this.#waiting.all()]) this.#end(awaited, { ok: false, error: agentClosedError() })
    await this.#delivering[Symbol.asyncDispose]()
    await this.#acknowledging[Symbol.asyncDispose]()
    await this.#ear[Symbol.asyncDispose]()
  }

  readonly #heard = (heard: ReceivedReturn): void => {
    const waiting = this.#waiting.of(heard.key)
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
        this.#reading.hurry(awaited)
      }
    }
  }

  /** It does not go straight from its work to its return. */
  readonly #detour = (key: PassKey): void => {
    for (const awaited of this.#waiting.of(key)) awaited.epoch = undefined
  }

  readonly #suspect = (key: PassKey): void => {
    for (const awaited of this.#waiting.of(key)) this.#reading.hurry(awaited)
  }

  #missed(): void {
    this.#epoch += 1
    this.#reading.all()
  }

  #deliver(awaited: PendingReturn, found: StoredReturn): void {
    this.forget(awaited)
    this.#delivering.deliver(this.#noticed(awaited), found, () => {
      if (this.#closed) {
        awaited.settle({ ok: false, error: agentClosedError() })
        return
      }
      // It could not be read to its end: wait for it again.
      const { key, digest, quiet, noticed, traceparent } = awaited
      const again = this.expect({ key, digest, own_id: false, quiet: quiet || undefined, noticed, traceparent }, awaited.settle)
      const { clock } = this.#deps
      // Of a return that was found before anything was sent nothing else says when to ask the audit, should it be deleted meanwhile.
      const give_up_at = Math.min(awaited.give_up_at, clock.now() + GRACE_MS)
      Object.assign(again, { published: awaited.published, give_up_at, nextPollAt: clock.monotonic() + SHORT_DELAY_MS })
    })
  }

  /** Told of, where somebody listens, as well as settled. What was only asked after again, or waited while the agent was away, is not. */
  #noticed(awaited: PendingReturn): PendingReturn {
    const notices = this.#notices
    if (!notices || !awaited.noticed) return awaited
    const settle = (outcome: ReturnOutcome): void => {
      notices.emit(awaited.key, outcome)
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
