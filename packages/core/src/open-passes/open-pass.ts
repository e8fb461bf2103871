import type { ErrorCode, PassKey, RequestFact, Step } from '@passover/schemas'
import { deadlineOf, firstStepIsLate, type JournalRules, type JournalState } from '../journal/state-machine.js'
import { SYSTEM_DEFAULTS } from '../policy/fields.js'
import type { Waiting } from './fair-queue.js'
import type { Timed } from './timer-queue.js'

/** A journal that has begun and not ended. */
export type LiveJournal = Extract<JournalState, { state: 'held' | 'open' }>

/** State that the timekeeper keeps of a pass whose journal has begun. */
export interface OpenPass extends Timed {
  kind: 'pass'
  text: string
  key: PassKey
  journal: LiveJournal
  cancelled: boolean
  /** True if it was already made due at once. A second reason does not make it due again. */
  hurried?: boolean
  /** Refusals of its end by newer steps (`DueEnd.refusals`). */
  refusals?: number
  /** Open passes that name this one as their parent. */
  below?: Set<OpenPass> | undefined
}

/** State that the timekeeper keeps of a request that no first step has answered yet. */
export interface PendingRequest extends Timed, Waiting {
  kind: 'asked'
  fact: RequestFact
  /** The requested pass, from the request's header or learned from its body. */
  key?: PassKey | undefined
  text?: string | undefined
  /** Set once the body was read. */
  timeout_ms?: number | undefined
  cancelled: boolean
}

export type EndReason =
  | 'cancelled'
  | 'deadline passed'
  | 'approval expired'
  | "parent's deadline passed"
  | 'never admitted'
  | 'id expired'
  | 'parent ended'
  | 'earlier attempt'

export interface EndVerdict {
  code: ErrorCode
  why: EndReason
}

/** Returns a copy of a step with only the fields that the timekeeper needs. Nonce, digest and guard would take most of its memory. */
export function slimStep(step: Step): Step {
  const { type, kind, key, by, sequence, time, attempt, request, requested_at, timeout_ms, expires_ms, parent, proof, code, reply } = step
  const { untrusted } = step
  if (untrusted !== undefined) return { type, kind, key, by, sequence, time, attempt, untrusted }
  return { type, kind, key, by, sequence, time, attempt, request, requested_at, timeout_ms, expires_ms, parent, proof, code, reply }
}

/** Returns the step that admitted or holds the pass. It names parent and proof. */
export function begunStep(journal: LiveJournal): Step {
  return journal.state === 'open' ? journal.work : journal.held
}

/**
 * Returns why a child must end because of its parent, or `undefined` (rule 3): its parent must be open, and its proof must name the parent's last
 * counted step.
 */
export function cascade(journal: LiveJournal, parent: OpenPass | undefined): EndVerdict | undefined {
  const step = begunStep(journal)
  if (!step.parent) return undefined
  if (parent?.journal.state !== 'open') return { code: 'E043', why: 'parent ended' }
  return parent.journal.valid === step.proof ? undefined : { code: 'E043', why: 'earlier attempt' }
}

/** Returns when and how a pass must end: at its deadline, at the expiry of its approval, or at its parent's deadline. */
export function expiry(journal: LiveJournal, parent: OpenPass | undefined): EndVerdict & { at: number } {
  if (journal.state === 'open') return { at: deadlineOf(journal.work), code: 'E010', why: 'deadline passed' }
  const approval = journal.held.time + (journal.held.expires_ms ?? SYSTEM_DEFAULTS.approval_expires_ms)
  const bound = parent?.journal.state === 'open' ? parent.journal.deadline : Number.POSITIVE_INFINITY
  if (bound < approval) return { at: bound, code: 'E013', why: "parent's deadline passed" }
  return { at: approval, code: 'E013', why: 'approval expired' }
}

/** Returns why a pass whose journal has begun must end now, or `undefined`. Checked in order: cancelled, time, parent. */
export function verdictOf(
  journal: LiveJournal,
  known: { cancelled: boolean; parent: OpenPass | undefined },
  now: number,
): EndVerdict | undefined {
  if (known.cancelled) return { code: 'E043', why: 'cancelled' }
  const { at, code, why } = expiry(journal, known.parent)
  return at <= now ? { code, why } : cascade(journal, known.parent)
}

/** Returns how a pass that never began ends. If its first step would be too late to count (rule 5), always as E005. */
export function pendingRequestVerdict(asked: PendingRequest & { key: PassKey }, now: number, rules: JournalRules): EndVerdict {
  const late = firstStepIsLate({ key: asked.key, time: now, requested_at: asked.fact.time }, rules)
  if (late) return { code: 'E005', why: 'id expired' }
  return asked.cancelled ? { code: 'E043', why: 'cancelled' } : { code: 'E010', why: 'never admitted' }
}

/** Returns the key of a requested pass. Originator and subagent are those of the subject, whatever the body says. */
export function requestKey({ originator, subagent }: RequestFact, id: string): PassKey {
  return { originator, subagent, id }
}

/** Returns the sequence of the message that began it, which orders items that are due at the same time. */
export function orderOf(item: OpenPass | PendingRequest): number {
  return item.kind === 'asked' ? item.fact.sequence : begunStep(item.journal).sequence
}
