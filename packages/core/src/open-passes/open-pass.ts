import type { ErrorCode, PassKey, RequestFact, Step } from '@passover/schemas'
import { deadlineOf, firstStepIsLate, type JournalRules, type JournalState } from '../journal/state-machine.js'
import { SYSTEM_DEFAULTS } from '../policy/fields.js'
import type { Waiting } from './fair-queue.js'
import type { Timed } from './timer-queue.js'

/** A journal that has begun and not ended. */
export type LiveJournal = Extract<JournalState, { state: 'held' | 'open' }>

/** What the timekeeper keeps of a pass whose journal has begun. */
export interface OpenPass extends Timed {
  kind: 'pass'
  text: string
  key: PassKey
  journal: LiveJournal
  cancelled: boolean
  /** It was due at once already: being so for one more reason gives it out no second time. */
  hurried?: boolean
  /** Refusals of its end by newer steps (DueEnd.refusals). */
  refusals?: number
  /** Open passes that name this one as their parent. */
  below?: Set<OpenPass> | undefined
}

/** What it keeps of a request that no first step has answered yet. */
export interface PendingRequest extends Timed, Waiting {
  kind: 'asked'
  fact: RequestFact
  /** The pass it asks for, as its header claims or as it was learned from the body. */
  key?: PassKey | undefined
  text?: string | undefined
  /** Set when the body was read. */
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

/** A copy of a step with only what the timekeeper needs: nonce, digest and guard would be most of its memory. */
export function slimStep(step: Step): Step {
  const { type, kind, key, by, sequence, time, attempt, request, requested_at, timeout_ms, expires_ms, parent, proof, code, reply } = step
  const { untrusted } = step
  if (untrusted !== undefined) return { type, kind, key, by, sequence, time, attempt, untrusted }
  return { type, kind, key, by, sequence, time, attempt, request, requested_at, timeout_ms, expires_ms, parent, proof, code, reply }
}

/** The step that admitted or holds the pass: it names parent and proof. */
export function begunStep(journal: LiveJournal): Step {
  return journal.state === 'open' ? journal.work : journal.held
}

/** Why a child may live no longer, if so (rule 3): its proof must name its parent's last counted step, and that one be open. */
export function cascade(journal: LiveJournal, parent: OpenPass | undefined): EndVerdict | undefined {
  const step = begunStep(journal)
  if (!step.parent) return undefined
  if (parent?.journal.state !== 'open') return { code: 'E043', why: 'parent ended' }
  return parent.journal.valid === step.proof ? undefined : { code: 'E043', why: 'earlier attempt' }
}

/** When a pass must have ended, and how it ends then: at its deadline, its approval's expiry, or its parent's deadline. */
export function expiry(journal: LiveJournal, parent: OpenPass | undefined): EndVerdict & { at: number } {
  if (journal.state === 'open') return { at: deadlineOf(journal.work), code: 'E010', why: 'deadline passed' }
  const approval = journal.held.time + (journal.held.expires_ms ?? SYSTEM_DEFAULTS.approval_expires_ms)
  const bound = parent?.journal.state === 'open' ? parent.journal.deadline : Number.POSITIVE_INFINITY
  if (bound < approval) return { at: bound, code: 'E013', why: "parent's deadline passed" }
  return { at: approval, code: 'E013', why: 'approval expired' }
}

/** Why a pass whose journal has begun must end now, if so: cancelled, then at its time, then with its parent. */
export function verdictOf(
  journal: LiveJournal,
  known: { cancelled: boolean; parent: OpenPass | undefined },
  now: number,
): EndVerdict | undefined {
  if (known.cancelled) return { code: 'E043', why: 'cancelled' }
  const { at, code, why } = expiry(journal, known.parent)
  return at <= now ? { code, why } : cascade(journal, known.parent)
}

/** How a pass that never began ends: one whose first step would come too late to count (rule 5) as E005, whatever else it is. */
export function pendingRequestVerdict(asked: PendingRequest & { key: PassKey }, now: number, rules: JournalRules): EndVerdict {
  const late = firstStepIsLate({ key: asked.key, time: now, requested_at: asked.fact.time }, rules)
  if (late) return { code: 'E005', why: 'id expired' }
  return asked.cancelled ? { code: 'E043', why: 'cancelled' } : { code: 'E010', why: 'never admitted' }
}

/** Originator and subagent of a request are those of its subject, whatever the body says. */
export function requestKey({ originator, subagent }: RequestFact, id: string): PassKey {
  return { originator, subagent, id }
}

/** Sequence of what began it: tells apart what is due at the same time. */
export function orderOf(item: OpenPass | PendingRequest): number {
  return item.kind === 'asked' ? item.fact.sequence : begunStep(item.journal).sequence
}
