import { journalFilter, type Step } from '@passover/schemas'
import type { Erasures } from '../state/erasures.js'
import type { PassState } from '../state/recorded-message.js'

/**
 * The server stored a step only where the one before it was the one that its guard names: so the guards of what is here tell whether a step was
 * taken out, put in or moved, whatever was made of the chain. A step without a guard, or with another one, says nothing (honest ones have theirs).
 */
export function guardFault({ key, journal, partial }: PassState, step: Step, erasures: Erasures): string | undefined {
  const { guard } = step
  if (!guard || guard.subject !== journalFilter(key)) return undefined
  if (guard.sequence === journal.last || partial || erasures.unseen(guard.sequence)) return undefined
  if (guard.sequence === 0) return `was stored as the first step of its pass, but step ${journal.last} is here before it`
  return journal.last === 0
    ? `comes after step ${guard.sequence} of its pass, which is not here`
    : `comes after step ${guard.sequence} of its pass, but the step before it here is ${journal.last}`
}

/**
 * The step of its own pass that the server saw before a step; 0: none, or the guard names other subjects. Such a guard proves nothing of this pass,
 * and an agent may write any.
 */
export function guardedBefore({ key, guard }: Step): number {
  return guard?.subject === journalFilter(key) ? guard.sequence : 0
}
