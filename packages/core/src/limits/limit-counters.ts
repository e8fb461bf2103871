import { keyText, type PassKey, pairKey, type Step } from '@passover/schemas'
import { isSystemStep } from '../journal/request-matching.js'
import { ChurnMap } from '../runtime/churn-map.js'
import { SessionCounter } from './session-counter.js'
import type { PairCounter, PairCounters, RateScope } from './sliding-window.js'

const MINUTE_MS = 61_000
/** Retry delay while active passes reach a limit. It is unknown when one of them ends. */
const RETRY_DELAY_MS = 1_000
/** Retry delay while held passes reach a limit. It is unknown when a person decides. */
const HELD_RETRY_DELAY_MS = 60_000

export type RateField = 'max_passes_per_minute' | 'max_active'

/** A limit that is reached, with the count. */
export interface LimitReached {
  count: number
  /** Milliseconds until a retry may succeed. Absent for a session, where it never does. */
  retry_after_ms?: number
}

/** Counts for one pass that is about to begin. Each method returns `undefined` if the limit is not reached. */
export interface PassCounts {
  /** False until all stored messages are read. Rates and numbers of active passes are unknown until then. */
  readonly ready: boolean
  rate(scope: RateScope, field: RateField, limit: number, now: number): LimitReached | undefined
  session(token: string, limit: number): LimitReached | undefined
  /** Checks the number of held passes of the originator, to all subagents. */
  held(limit: number): LimitReached | undefined
}

interface Ticket {
  key: PassKey
  session: string | undefined
  held: boolean
}

/** The fold that keeps the counts. `ready` is true once it has read everything that was stored when it began. */
export interface CountSource {
  open: { readonly tallies: PairCounters; readonly sessions: SessionCounter }
  ready: boolean
}

/**
 * Counts of one dispatcher: what its fold has read, plus what the dispatcher has admitted and the fold has not read yet, each pass once. A limit can
 * be exceeded by at most the passes that other dispatchers are admitting at the same time.
 */
export class LimitCounters {
  readonly #folded: () => CountSource | undefined
  readonly #tickets = new ChurnMap<string, Ticket>()
  /** Number of tickets per session. Kept as a map because the session limit always applies, and there are many tickets while the fold lags behind. */
  readonly #sessions = new Map<string, number>()
  /** Number of tickets per pair. `max_open` applies to every pair without a limit of its own. */
  readonly #pairs = new Map<string, number>()
  /** Counts of sessions admitted here, for a dispatcher without a fold. Each such dispatcher applies the limit on its own. */
  readonly #own: SessionCounter

  /** @param folded - returns `undefined` if this dispatcher runs no fold. */
  constructor(folded: () => CountSource | undefined, keep_ms: number) {
    this.#folded = folded
    this.#own = new SessionCounter(keep_ms)
  }

  /** Number of admitted passes that the fold has not read yet. */
  get underway(): number {
    return this.#tickets.size
  }

  /** Counts a pass that is admitted or held. */
  take(key: PassKey, session: string | undefined, held = false): void {
    const text = keyText(key)
    this.#drop(text)
    this.#tickets.set(text, { key, session, held })
    if (session !== undefined) add(this.#sessions, session, 1)
    add(this.#pairs, pairOf(key), 1)
  }

  /** Counts a pass whose step is stored, for a dispatcher without a fold. Does nothing if there is one, because it will read the step. */
  stored(key: PassKey, time: number): void {
    if (this.#folded()) return
    const ticket = this.#drop(keyText(key))
    if (ticket?.session !== undefined) this.#own.add(ticket.session, time)
  }

  /** Stops counting a pass that was not admitted after all, or that another step began. */
  release(key: PassKey): void {
    if (this.#tickets.size > 0) this.#drop(keyText(key))
  }

  /** Drops the ticket of a pass whose step the fold has read: the fold counts the pass from now on, or the pass has ended. */
  read(step: Step): void {
    if (this.#tickets.size === 0 || step.untrusted !== undefined || !isSystemStep(step)) return
    this.#drop(keyText(step.key))
  }

  /** Forgets all tickets, before a fold reads all messages again. */
  clear(): void {
    this.#tickets.clear()
    this.#sessions.clear()
    this.#pairs.clear()
  }

  for(key: PassKey): PassCounts {
    const folded = this.#folded()
    const { tallies, sessions }: { tallies?: PairCounters; sessions: SessionCounter } = folded?.open ?? { sessions: this.#own }
    return {
      ready: folded?.ready === true,
      rate: (scope, field, limit, now) => {
        const tally = tallies?.of(scope, key)
        const read = tally ? readOf(tally, { scope, field, now }) : 0
        // Fast path: usually there is room for all tickets together, so they need not be filtered by pair.
        if (read + this.#tickets.size < limit) return undefined
        const underway = this.#underway(scope, field, key)
        const count = read + underway
        if (count < limit) return undefined
        if (field === 'max_active') return { count, retry_after_ms: RETRY_DELAY_MS }
        // Tickets began just now, so they stay in the window for a full minute.
        const retry_after_ms = tally && underway < limit ? tally.minute.freesIn(limit - underway, now) : MINUTE_MS
        return { count, retry_after_ms }
      },
      session: (token, limit) => {
        const read = sessions.count(token)
        if (read + this.#tickets.size < limit) return undefined
        const count = read + (this.#sessions.get(token) ?? 0)
        return count < limit ? undefined : { count }
      },
      held: (limit) => {
        const read = tallies?.held(key.originator) ?? 0
        if (read + this.#tickets.size < limit) return undefined
        const count = read + this.#heldUnderway(key.originator)
        return count < limit ? undefined : { count, retry_after_ms: HELD_RETRY_DELAY_MS }
      },
    }
  }

  #heldUnderway(originator: string): number {
    let count = 0
    for (const { key, held } of this.#tickets.values()) if (held && key.originator === originator) count += 1
    return count
  }

  #underway(scope: RateScope, field: RateField, pass: PassKey): number {
    if (scope === 'pair') return this.#pairs.get(pairOf(pass)) ?? 0
    const { originator, subagent } = pass
    let count = 0
    for (const { key, held } of this.#tickets.values()) {
      if (key.subagent !== subagent || (scope === 'share' && key.originator !== originator)) continue
      if (!held || countsHeld(scope, field)) count += 1
    }
    return count
  }

  #drop(text: string): Ticket | undefined {
    const ticket = this.#tickets.take(text)
    if (!ticket) return undefined
    if (ticket.session !== undefined) add(this.#sessions, ticket.session, -1)
    add(this.#pairs, pairOf(ticket.key), -1)
    return ticket
  }
}

function pairOf({ originator, subagent }: PassKey): string {
  return pairKey(originator, subagent)
}

function add(counts: Map<string, number>, name: string, more: 1 | -1): void {
  const count = (counts.get(name) ?? 0) + more
  if (count > 0) counts.set(name, count)
  else counts.delete(name)
}

function readOf({ active, held, minute }: PairCounter, { scope, field, now }: { scope: RateScope; field: RateField; now: number }): number {
  if (field === 'max_passes_per_minute') return minute.count(now)
  return countsHeld(scope, field) ? active : active - held
}

/**
 * Returns true if held passes count towards a limit. No worker runs a held pass, so it uses no capacity of the subagent; the pair's own limit
 * includes it.
 */
function countsHeld(scope: RateScope, field: RateField): boolean {
  return scope === 'pair' || field === 'max_passes_per_minute'
}
