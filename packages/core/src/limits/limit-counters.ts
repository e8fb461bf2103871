import { keyText, type PassKey, pairKey, type Step } from '@passover/schemas'
import { isSystemStep } from '../journal/request-matching.js'
import { ChurnMap } from '../runtime/churn-map.js'
import { SessionCounter } from './session-counter.js'
import type { PairCounter, PairCounters, RateScope } from './sliding-window.js'

const MINUTE_MS = 61_000
/** Nobody knows when one of the active passes ends. */
const RETRY_DELAY_MS = 1_000
/** Nor when a person decides about one that is held. */
const HELD_RETRY_DELAY_MS = 60_000

export type RateField = 'max_passes_per_minute' | 'max_active'

/** A limit that is reached, with what was counted. */
export interface LimitReached {
  count: number
  /** When there may be room again; of a session never. */
  retry_after_ms?: number
}

/** What is counted for one pass that is about to begin. Undefined: there is room. */
export interface PassCounts {
  /** False: not everything stored has been read, so rates and active passes cannot be told. */
  readonly ready: boolean
  rate(scope: RateScope, field: RateField, limit: number, now: number): LimitReached | undefined
  session(token: string, limit: number): LimitReached | undefined
  /** Held passes of its originator, to any subagent. */
  held(limit: number): LimitReached | undefined
}

interface Ticket {
  key: PassKey
  session: string | undefined
  held: boolean
}

/** The fold that counts. `ready`: it has read everything that was stored when it began. */
export interface CountSource {
  open: { readonly tallies: PairCounters; readonly sessions: SessionCounter }
  ready: boolean
}

/**
 * The counts of one dispatcher: what its fold has read, and what it has let through itself that the fold has not
 * read yet, each pass once. Other dispatchers' passes that are on their way are what a limit is overshot by at most.
 */
export class LimitCounters {
  readonly #folded: () => CountSource | undefined
  readonly #tickets = new ChurnMap<string, Ticket>()
  /** How many of them each session has: its limit binds always, and there are many while the fold is behind. */
  readonly #sessions = new Map<string, number>()
  /** The same of each pair: `max_open` binds every pair that has no limit of its own. */
  readonly #pairs = new Map<string, number>()
  /** Where nobody folds: the sessions of what was let through here, so that each such dispatcher is bounded by itself. */
  readonly #own: SessionCounter

  /** `folded` gives undefined where nobody folds. */
  constructor(folded: () => CountSource | undefined, keep_ms: number) {
    this.#folded = folded
    this.#own = new SessionCounter(keep_ms)
  }

  /** Passes let through that the fold has not read yet. */
  get underway(): number {
    return this.#tickets.size
  }

  /** A pass is let through, or held: it counts from now on. */
  take(key: PassKey, session: string | undefined, held = false): void {
    const text = keyText(key)
    this.#drop(text)
    this.#tickets.set(text, { key, session, held })
    if (session !== undefined) add(this.#sessions, session, 1)
    add(this.#pairs, pairOf(key), 1)
  }

  /** Its step is stored. The fold will read it, where there is one. */
  stored(key: PassKey, time: number): void {
    if (this.#folded()) return
    const ticket = this.#drop(keyText(key))
    if (ticket?.session !== undefined) this.#own.add(ticket.session, time)
  }

  /** It was not let through after all, or another one's step began it. */
  release(key: PassKey): void {
    if (this.#tickets.size > 0) this.#drop(keyText(key))
  }

  /** The fold has read this step: from now on it counts there, or it has ended. */
  read(step: Step): void {
    if (this.#tickets.size === 0 || step.untrusted !== undefined || !isSystemStep(step)) return
    this.#drop(keyText(step.key))
  }

  /** What was let through is read anew with everything else. */
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
        // Most of the time there is room for all that is under way, and nobody needs to know for whom it is.
        if (read + this.#tickets.size < limit) return undefined
        const underway = this.#underway(scope, field, key)
        const count = read + underway
        if (count < limit) return undefined
        if (field === 'max_active') return { count, retry_after_ms: RETRY_DELAY_MS }
        // What is under way began just now.
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

/** No worker works on a held pass, so it takes no place of the subagent; a pair's own limit bounds it. */
function countsHeld(scope: RateScope, field: RateField): boolean {
  return scope === 'pair' || field === 'max_passes_per_minute'
}
