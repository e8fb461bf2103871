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
  deliver: (pending: PendingReturn, storedReturn: StoredReturn) => void
  end: (pending: PendingReturn, outcome: ReturnOutcome) => void
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
  readonly #queue: PollQueue
  #sweeping: Disposable | undefined
  #closed = false

  constructor(deps: Deps, of: { rules: ViewRules; pending: PendingReturns }, handlers: PollHandlers) {
    this.#deps = deps
    this.#rules = of.rules
    this.#pending = of.pending
    this.#handlers = handlers
    this.#queue = new PollQueue((pending) => this.#poll(pending))
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
  async pollNow(pending: PendingReturn): Promise<PollResult> {
    const result = await pollJournal(this.#deps.bus, pending, this.#rules)
    this.#applyResult(pending, result)
    // The stream may have deleted the pass already. A new request with the id would only be refused because the id has expired.
    if (result.kind === 'nothing' && this.#hasExpired(pending.key)) await this.#askAuditService(pending, result)
    return result
  }

  /** Reads the journal of a pass as soon as possible, because its return is probably stored. */
  pollSoon(pending: PendingReturn): void {
    pending.nextPollAt = Math.min(pending.nextPollAt, this.#deps.clock.monotonic())
    this.#queue.addUrgent(pending)
    this.#queue.begin()
  }

  /** Schedules a read of all journals. Any return may have been missed while the connection was lost. */
  pollAll(): void {
    const now = this.#deps.clock.monotonic()
    for (const pending of this.#pending.all()) {
      pending.nextPollAt = Math.min(pending.nextPollAt, now)
      this.#queue.add(pending)
    }
    this.#queue.allowAllDue()
    this.#queue.begin()
  }

  #sweep(): void {
    const now = this.#deps.clock.monotonic()
    for (const pending of [...this.#pending.all()]) {
      if (now >= pending.give_up_at) this.#handleOverdue(pending, now)
      else {
        pending.overdue_since = undefined
        if (pending.nextPollAt <= now) this.#queue.add(pending)
      }
    }
    this.#queue.sweep()
  }

  /** Handles a pass that should have ended by now. It is read before all others, and given up after `OVERDUE_TIMEOUT_MS`. */
  #handleOverdue(pending: PendingReturn, now: number): void {
    pending.overdue_since ??= now
    if (now - pending.overdue_since >= OVERDUE_TIMEOUT_MS) {
      this.#handlers.end(pending, { ok: false, error: unreachableError('the end of the pass could not be read in time', pending.key) })
    } else if (pending.nextPollAt <= now || pending.overdue_since === now) this.#queue.addUrgent(pending)
  }

  async #poll(pending: PendingReturn): Promise<void> {
    pending.pollCount += 1
    pending.nextPollAt = this.#deps.clock.monotonic() + Math.min(POLL_INTERVAL_MS + pending.pollCount * 500, MAX_POLL_INTERVAL_MS)
    try {
      const result = await pollJournal(this.#deps.bus, pending, this.#rules)
      this.#applyResult(pending, result)
      const overdue = this.#isOverdue(pending)
      if (!pending.finished && (result.kind === 'unclear' || (overdue && result.kind !== 'held')))
        await this.#askAuditService(pending, result)
    } catch {
      if (this.#isOverdue(pending)) {
        this.#handlers.end(pending, { ok: false, error: unreachableError('the server cannot be read', pending.key) })
        return
      }
      pending.nextPollAt = this.#deps.clock.monotonic() + SHORT_DELAY_MS
      this.#queue.allowOneMore()
    }
  }

  #applyResult(pending: PendingReturn, result: PollResult): void {
    if (pending.finished) return
    if (result.kind === 'return') this.#handlers.deliver(pending, result.storedReturn)
    if (result.kind === 'other_request') this.#handlers.end(pending, { ok: false, error: idReusedError(pending.key) })
    if (result.kind !== 'nothing') pending.begun = true
    // Deleted since it was seen: only the audit service knows its result.
    else if (pending.begun && pending.give_up_at === Number.POSITIVE_INFINITY) pending.give_up_at = this.#deps.clock.monotonic() + GRACE_MS
    if (result.kind === 'held') pending.give_up_at = Number.POSITIVE_INFINITY
    if (result.kind === 'open') this.#setDeadline(pending, result.deadline)
  }

  #hasExpired({ id }: PassKey): boolean {
    const created = idTime(id)
    return created !== undefined && this.#deps.clock.now() - created > this.#rules.id_window_ms
  }

  #isOverdue({ give_up_at }: PendingReturn): boolean {
    return this.#deps.clock.monotonic() >= give_up_at
  }

  /**
   * Schedules the next read for just after the deadline of the pass. While the server's time is unknown, it is also unknown how far away that is: the
   * pass is read as often as others, and not given up.
   */
  #setDeadline(pending: PendingReturn, deadline: number): void {
    const { bus, clock } = this.#deps
    if (!bus.clockKnown) {
      pending.give_up_at = Number.POSITIVE_INFINITY
      return
    }
    const now = clock.monotonic()
    const left = deadline - clock.now()
    pending.give_up_at = now + left + GRACE_MS
    pending.nextPollAt = Math.min(pending.nextPollAt, now + (left + SHORT_DELAY_MS > 0 ? left + SHORT_DELAY_MS : 1_000))
  }

  async #askAuditService(pending: PendingReturn, result: PollResult): Promise<void> {
    const answer = await askAudit(this.#deps.bus, pending.key)
    if (pending.finished) return
    const { clock, bus } = this.#deps
    const returned = result.kind === 'unclear' ? result.returned : undefined
    const evaluated = evaluateAnswer(pending, answer, {
      now: clock.now(),
      overdue: this.#isOverdue(pending),
      connected: bus.connected,
      rules: this.#rules,
      returned,
    })
    if (evaluated.kind === 'error') this.#handlers.end(pending, { ok: false, error: evaluated.error })
    else if (evaluated.kind !== 'wait') this.#applyResult(pending, evaluated)
  }
}
