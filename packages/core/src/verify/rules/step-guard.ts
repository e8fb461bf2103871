import { journalFilter, type Step } from '@passover/schemas'
import type { Erasures } from '../state/erasures.js'
import type { PassState } from '../state/recorded-message.js'

/**
 * Checks the guard of a step. The server stored the step only if the previous one was the one that its guard names. So the guards show if a step was
 * removed, inserted or moved, even if the chain was recomputed. A step without a guard, or with one on other subjects, proves nothing (correct
 * clients always set theirs).
 */
export function guardFault({ key, journal, partial }: PassState, step: Step, erasures: Erasures): string | undefined {
  const { guard } = step
  // A guard of 0 proves nothing: the steps before it may have left the stream, as those of ids that nobody requested do.
  if (!guard || guard.subject !== journalFilter(key) || guard.sequence === 0) return undefined
  if (guard.sequence === journal.last || partial || erasures.unseen(guard.sequence)) return undefined
  return journal.last === 0
    ? `comes after step ${guard.sequence} of its pass, which is missing`
    : `comes after step ${guard.sequence} of its pass, but the stored step before it is ${journal.last}`
}

/**
 * Returns the previous step of the same pass according to the guard, or 0 if there is none or the guard names other subjects. Such a guard proves
 * nothing about this pass, and an agent can write any guard.
 */
export function guardedBefore({ key, guard }: Step): number {
  return guard?.subject === journalFilter(key) ? guard.sequence : 0
}
