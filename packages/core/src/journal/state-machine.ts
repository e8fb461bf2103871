import { idTime, PRIORITIES, type Step, SYSTEM } from '@passover/schemas'
import { DEFAULT_TIMEOUT_MS } from '../policy/fields.js'
import { isExpiry } from './request-matching.js'

interface Seen {
  /** Sequence of the last step seen, counted or not. The next guard expects it. */
  last: number
  /** Sequence of the last step that counts. A child's proof must name it (I4). */
  valid: number
}

/** State of a pass after its steps (docs/architecture/invariants.md#the-fold). */
export type JournalState =
  | { state: 'none'; last: number; valid: 0 }
  | ({ state: 'held'; held: Step } & Seen)
  | ({ state: 'open'; attempt: number; held?: Step; work: Step; deadline: number } & Seen)
  /** `attempt` is the number of the last attempt, 0 if none began. */
  | ({ state: 'done'; attempt: number; held?: Step; work?: Step; return: Step } & Seen)

export const EMPTY_JOURNAL: JournalState = Object.freeze({ state: 'none', last: 0, valid: 0 })

export interface JournalRules {
  /** Milliseconds for which an id may be used after its time (docs/architecture/protocol.md#ids). */
  id_window_ms: number
  /** `unverified` if the reader's server does not check names. A setting of the reader, because what messages claim about it proves nothing. */
  names?: 'unverified' | undefined
}

export interface Next {
  journal: JournalState
  /** Reason why the step is impossible. Every reader ignores such a step and treats it as a violation. */
  ignored?: string
}

/**
 * Returns the state of a journal after one more step (I1, I2). All readers use this function. An impossible step changes only `last`.
 * Steps must come in sequence order. Pure; the time in a step is the server's.
 */
export function next(journal: JournalState, step: Step, rules: JournalRules): Next {
  const why = impossible(journal, step, rules)
  if (why !== undefined) return { journal: { ...journal, last: step.sequence }, ignored: why }
  return { journal: advanced(journal, step) }
}

/** Returns the state after all these steps, and the steps that do not count with the reason for each. */
export function foldJournal(
  steps: readonly Step[],
  rules: JournalRules,
): { journal: JournalState; ignored: { step: Step; why: string }[] } {
  const ignored: { step: Step; why: string }[] = []
  let journal = EMPTY_JOURNAL
  for (const step of steps) {
    const after = next(journal, step, rules)
    journal = after.journal
    if (after.ignored !== undefined) ignored.push({ step, why: after.ignored })
  }
  return { journal, ignored }
}

/**
 * Rule 5: returns true if a first step was stored more than a window after its id's time, or, for an id without time, after the request that it
 * names. Such a step counts only if it is an E005 "expired".
 */
export function firstStepIsLate(step: Pick<Step, 'key' | 'time' | 'requested_at'>, rules: JournalRules): boolean {
  const asked = idTime(step.key.id) ?? step.requested_at
  return asked !== undefined && step.time - asked > rules.id_window_ms
}

function impossible(journal: JournalState, step: Step, rules: JournalRules): string | undefined {
  if (step.untrusted !== undefined) return step.untrusted
  if (journal.state === 'done') return step.kind === 'return' ? 'a second return' : `a ${step.kind} after the return`
  if (journal.state === 'none' && !isExpiry(step) && firstStepIsLate(step, rules)) return 'a first step after its id expired'
  return IMPOSSIBLE[step.kind](journal, step)
}

type Live = Exclude<JournalState, { state: 'done' }>

const IMPOSSIBLE: Record<Step['kind'], (journal: Live, step: Step) => string | undefined> = {
  held: (journal, step) => {
    if (step.by !== SYSTEM) return `held by ${step.by}`
    return journal.state === 'none' ? undefined : `held when ${journal.state}`
  },
  work: (journal, step) => {
    if (!PRIORITIES.some((priority) => priority === step.by)) return `work in an unknown slot ${step.by}`
    return journal.state === 'open' ? 'a second work' : undefined
  },
  fence: (journal, step) => {
    if (step.by !== step.key.subagent) return `a fence by ${step.by}`
    if (journal.state !== 'open') return `a fence before work`
    return step.attempt === journal.attempt + 1 ? undefined : `a fence of attempt ${step.attempt} in attempt ${journal.attempt}`
  },
  return: (journal, step) => {
    if (step.by === SYSTEM) return undefined
    if (step.by !== step.key.subagent) return `a return by ${step.by}`
    if (journal.state !== 'open') return 'a return before work'
    return step.attempt === journal.attempt ? undefined : `a return of attempt ${step.attempt} in attempt ${journal.attempt}`
  },
}

/** Written out field by field: this runs three times per pass in every reader, and object spreads would cost more than everything else in it. */
function advanced(journal: JournalState, step: Step): JournalState {
  const last = step.sequence
  if (step.kind === 'held') return { state: 'held', last, valid: last, held: step }
  const held = journal.state === 'none' ? undefined : journal.held
  if (step.kind === 'work') {
    const deadline = deadlineOf(step)
    if (held) return { state: 'open', last, valid: last, attempt: 1, held, work: step, deadline }
    return { state: 'open', last, valid: last, attempt: 1, work: step, deadline }
  }
  if (step.kind === 'fence' && journal.state === 'open') return Object.assign({}, journal, { last, valid: last, attempt: step.attempt })
  if (journal.state === 'open') {
    const { attempt, work } = journal
    if (held) return { state: 'done', last, valid: last, attempt, held, work, return: step }
    return { state: 'done', last, valid: last, attempt, work, return: step }
  }
  if (held) return { state: 'done', last, valid: last, attempt: 0, held, return: step }
  return { state: 'done', last, valid: last, attempt: 0, return: step }
}

/** Returns the overall deadline of admitted work in server ms: its stored time plus timeout_ms (docs/architecture/protocol.md#deadlines). */
export function deadlineOf(work: Pick<Step, 'time' | 'timeout_ms'>): number {
  return work.time + (work.timeout_ms ?? DEFAULT_TIMEOUT_MS)
}
