import { idTime, type PassKey } from '@passover/schemas'
import type { PendingReturn, ReturnOutcome } from '../delivery/pending-return.js'
import type { ViewRules } from '../journal/journal-view.js'
import { askAudit, type PollResult, pollJournal, type StoredReturn } from '../journal/poll.js'
import { idReusedError, unreachableError } from '../journal/return-errors.js'
import type { Deps } from '../runtime/dependencies.js'
import { evaluateAnswer, GRACE_MS } from './evaluate-answer.js'
import type { PendingReturns } from './pending-returns.js'
import { PollQueue } from './poll-queue.js'

const SWEEP_MS = 250
/** Milliseconds between reads of a journal. The interval grows with each read, so that a burst of slow passes does not cause constant load. */
const POLL_INTERVAL_MS = 5_000
const MAX_POLL_INTERVAL_MS = 15_000
export const SHORT_DELAY_MS = 300
/** Milliseconds after the expected end of a pass until waiting is given up if its journal cannot be read. */
const OVERDUE_TIMEOUT_MS = 30_000

/** Callbacks for passes whose journal was read. */
export interface PollHandlers {
  deliver: (awaited: PendingReturn, found: StoredReturn) => void
  end: (awaited: PendingReturn, outcome: ReturnOutcome) => void
}

/**
 * Reads the journals of awaited passes whose return may have been missed: 3 s after the request is stored and then every 5 to 15 s, after each
 * reconnect, and after a message that suggests a stored return. Uses one periodic sweep for all passes (I6).
 */
export class JournalPoller implements Disposable {
  readonly #deps: Deps
  readonly #rules: ViewRules
  readonly #pending: PendingReturns
  readonly #handlers: PollHandlers
  readonly #polls: PollQueue
  #sweeping: Disposable | undefined
  #closed = false

  constructor(deps: Deps, of: { rules: ViewRules; pending: PendingReturns }, handlers: PollHandlers) {
    this.#deps = deps
    this.#rules = of.rules
    this.#pending = of.pending
    this.#handlers = handlers
    this.#polls = new PollQueue((awaited) => this.#look(awaited))
  }

  [Symbol.dispose](): void {
    this.#closed = true
    this.#sweeping?.[Symbol.dispose]()
  }

  /** Starts the periodic sweep, which runs as long as passes are awaited. */
  begin(): void {
    if (this.#sweeping || this.#closed) return
    this.#sweeping = this.#deps.clock.after(SWEEP_MS, () => {
      this.#sweeping = undefined
      this.#sweep()
      if (this.#pending.size > 0) this.begin()
    })
  }

  /** Reads the journal of a pass immediately, without waiting for the sweep. */
  async first(awaited: PendingReturn): Promise<PollResult> {
    const found = await pollJournal(this.#deps.bus, awaited, this.#rules)
    this.#seen(awaited, found)
    // The stream may have deleted the pass already. A new request with the id would only be refused because the id has expired.
    if (found.kind === 'nothing' && this.#hasExpired(awaited.key)) await this.#ask(awaited, found)
    return found
  }

  /** Reads the journal of a pass as soon as possible, because its return is probably stored. */
  hurry(awaited: PendingReturn): void {
    awaited.nextPollAt = Math.min(awaited.nextPollAt, this.#deps.clock.monotonic())
    this.#polls.hurry(awaited)
    this.#polls.begin()
  }

  /** Schedules a read of all journals. Any return may have been missed while the connection was lost. */
  all(): void {
    const now = this.#deps.clock.monotonic()
    for (const awaited of this.#pending.all()) {
      awaited.nextPollAt = Math.min(awaited.nextPollAt, now)
      this.#polls.add(awaited)
    }
    this.#polls.catchUp()
    this.#polls.begin()
  }

  #sweep(): void {
    const { clock } = this.#deps
    const now = clock.monotonic()
    const time = clock.now()
    for (const awaited of [...this.#pending.all()]) {
      if (time >= awaited.give_up_at) this.#overdue(awaited, now)
      else {
        awaited.overdue_since = undefined
        if (awaited.nextPollAt <= now) this.#polls.add(awaited)
      }
    }
    this.#polls.sweep()
  }

  /** Handles a pass that should have ended by now. It is read before all others, and given up after `OVERDUE_TIMEOUT_MS`. */
  #overdue(awaited: PendingReturn, now: number): void {
    awaited.overdue_since ??= now
    if (now - awaited.overdue_since >= OVERDUE_TIMEOUT_MS) {
      this.#handlers.end(awaited, { ok: false, error: unreachableError('the end of the pass could not be read in time', awaited.key) })
    } else if (awaited.nextPollAt <= now || awaited.overdue_since === now) this.#polls.hurry(awaited)
  }

  async #look(awaited: PendingReturn): Promise<void> {
    awaited.pollCount += 1
    awaited.nextPollAt = this.#deps.clock.monotonic() + Math.min(POLL_INTERVAL_MS + awaited.pollCount * 500, MAX_POLL_INTERVAL_MS)
    try {
      const found = await pollJournal(this.#deps.bus, awaited, this.#rules)
      this.#seen(awaited, found)
      const overdue = this.#deps.clock.now() >= awaited.give_up_at
      if (!awaited.finished && (found.kind === 'unclear' || (overdue && found.kind !== 'held'))) await this.#ask(awaited, found)
    } catch {
      if (this.#deps.clock.now() >= awaited.give_up_at) {
        this.#handlers.end(awaited, { ok: false, error: unreachableError('the server cannot be read', awaited.key) })
        return
      }
      awaited.nextPollAt = this.#deps.clock.monotonic() + SHORT_DELAY_MS
      this.#polls.again()
    }
  }

  #seen(awaited: PendingReturn, found: PollResult): void {
    if (awaited.finished) return
    if (found.kind === 'return') this.#handlers.deliver(awaited, found.found)
    if (found.kind === 'other_request') this.#handlers.end(awaited, { ok: false, error: idReusedError(awaited.key) })
    if (found.kind !== 'nothing') awaited.begun = true
    // Deleted since it was seen: only the audit service knows its result.
    else if (awaited.begun && awaited.give_up_at === Number.POSITIVE_INFINITY) awaited.give_up_at = this.#deps.clock.now() + GRACE_MS
    if (found.kind === 'held') awaited.give_up_at = Number.POSITIVE_INFINITY
    if (found.kind === 'open') this.#endsBy(awaited, found.deadline)
  }

  #hasExpired({ id }: PassKey): boolean {
    const made = idTime(id)
    return made !== undefined && this.#deps.clock.now() - made > this.#rules.id_window_ms
  }

  /** Schedules the next read for just after the deadline of the pass. */
  #endsBy(awaited: PendingReturn, deadline: number): void {
    const { clock } = this.#deps
    awaited.give_up_at = deadline + GRACE_MS
    const left = deadline + SHORT_DELAY_MS - clock.now()
    if (left > 0) awaited.nextPollAt = Math.min(awaited.nextPollAt, clock.monotonic() + left)
    else awaited.nextPollAt = Math.min(awaited.nextPollAt, clock.monotonic() + 1_000)
  }

  async #ask(awaited: PendingReturn, found: PollResult): Promise<void> {
    const asked = await askAudit(this.#deps.bus, awaited.key)
    if (awaited.finished) return
    const { clock, bus } = this.#deps
    const returned = found.kind === 'unclear' ? found.returned : undefined
    const judged = evaluateAnswer(awaited, asked, { now: clock.now(), connected: bus.connected, rules: this.#rules, returned })
    if (judged.kind === 'error') this.#handlers.end(awaited, { ok: false, error: judged.error })
    else if (judged.kind !== 'wait') this.#seen(awaited, judged)
  }
}
