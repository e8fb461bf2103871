import type { JournalRules, PassOverError } from '@passover/core'
import { type AnsweredPass, SYSTEM } from '@passover/schemas'
import type { PendingReturn } from '../delivery/pending-return.js'
import { type AuditAnswer, isOfEarlierUse, type PollResult } from '../journal/poll.js'
import { idReusedError, passNotFoundError, unconfirmedReturnError, unreachableError } from '../journal/return-errors.js'

/** Milliseconds after the deadline of a pass during which its end is still awaited. */
export const GRACE_MS = 5_000

export type AnswerEvaluation =
  | Extract<PollResult, { kind: 'return' | 'held' | 'open' }>
  | { kind: 'wait' }
  | { kind: 'error'; error: PassOverError }

/**
 * Decides what the audit service's answer means for an awaited pass. Pure. A held pass is awaited further. If the end of the pass is overdue, waiting
 * ends with E040, or with E041 if the pass is unknown and was not published here. `at.returned` is the sequence of a return in the journal that
 * cannot be judged without the audit service.
 */
export function evaluateAnswer(
  pending: Pick<PendingReturn, 'key' | 'digest' | 'published'>,
  answer: AuditAnswer,
  at: { now: number; overdue: boolean; connected: boolean; rules: JournalRules; returned?: number | undefined },
): AnswerEvaluation {
  if (answer.kind === 'pass' && !isRecordOfEarlierUse(pending, answer, at.rules)) {
    const { pass, storedReturn } = answer
    // An E005 from the system as first step carries no digest of a readable request. It answers every request with the id.
    const differs = pending.digest !== undefined && pass.digest !== undefined && pass.digest !== pending.digest
    if (differs && !(storedReturn?.by === SYSTEM && pass.row.code === 'E005')) {
      return { kind: 'error', error: idReusedError(pending.key) }
    }
    if (storedReturn) return { kind: 'return', storedReturn }
    if (pass.status === 'held') return { kind: 'held' }
    if (pass.deadline !== undefined && pass.deadline + GRACE_MS > at.now) return { kind: 'open', deadline: pass.deadline }
  }
  if (!at.overdue) return { kind: 'wait' }
  if (answer.kind === 'unknown' && !pending.published) return { kind: 'error', error: passNotFoundError(pending.key) }
  if (at.returned !== undefined) return { kind: 'error', error: unconfirmedReturnError(pending.key, at.returned) }
  const why = at.connected ? 'no dispatcher ended the pass in time' : 'the server cannot be reached'
  return { kind: 'error', error: unreachableError(why, pending.key) }
}

/** Returns true if the audit service answers from the record of an earlier use of the id because it has not read the request yet. */
function isRecordOfEarlierUse(
  { published }: Pick<PendingReturn, 'published'>,
  answer: Extract<AuditAnswer, { kind: 'pass' }>,
  rules: JournalRules,
): boolean {
  if (!published || !answer.storedReturn || !isOfEarlierUse({ published }, answer.storedReturn, rules)) return false
  return !requestsOf(answer.pass).includes(published.sequence)
}

function requestsOf({ record }: AnsweredPass): readonly unknown[] {
  const { sequences } = (record ?? {}) as { sequences?: { requests?: unknown[] } }
  return sequences?.requests ?? []
}
