import { firstStepIsLate, isExpiry, type JournalRules } from '@passover/core'
import { isFirst, journalFilter, type Step, SYSTEM } from '@passover/schemas'

/**
 * A journal as read with exact gets. An exact get returns only the last message of a subject: a later dishonest message may hide an earlier step, and
 * an empty result proves nothing (rule 6). So a step counts only if the step that its guard names was found too.
 */
export interface JournalView {
  held?: Step
  work?: Step
  /** The newest fence that can be verified. */
  fence?: Step
  /** Number of the current attempt. 0 without a work step. */
  attempt: number
  /** Sequence of the last step found, valid or not, which the next guard expects. */
  last: number
  /** Sequence of the last valid step found, which a child's proof names. */
  valid: number
  ending: JournalEnding
}

export type JournalEnding =
  | { kind: 'none' }
  | { kind: 'return'; step: Step }
  /** There is a return or a fence that cannot be judged from the steps found: ask the audit service, or read again. */
  | { kind: 'unclear' }

/** Rules for judging steps that were read. */
export interface ViewRules extends JournalRules {
  /**
   * True to accept a fence whose predecessor is hidden. Workers do, because their own agent wrote the fence. Callers do not: they ask the audit
   * service.
   */
  trust_fences: boolean
}

/** Judges the steps that exact gets found, in any order. Pure (rules 1, 5 and 6 of docs/architecture/invariants.md#rules). */
export function viewJournal(steps: readonly Step[], rules: ViewRules): JournalView {
  const held = steps.find((step) => step.kind === 'held' && step.by === SYSTEM && !step.untrusted && !isLateFirst(step, rules))
  const work = steps.find((step) => step.kind === 'work' && !step.untrusted && !isLateFirst(step, rules))
  const fences = steps.filter((step) => step.kind === 'fence' && work !== undefined && step.sequence > work.sequence)
  const fence = fences.find((step) => work !== undefined && isValidFence(step, work, rules))
  const counted: CountedSteps = {
    ...(held && { held }),
    ...(work && { work }),
    ...(fence && { fence }),
    attempt: fence?.attempt ?? (work ? 1 : 0),
    last: steps.reduce((last, step) => Math.max(last, step.sequence), 0),
    valid: (fence ?? work ?? held)?.sequence ?? 0,
  }
  return { ...counted, ending: endingOf(steps, counted, { rules, doubtfulFence: fences.length > 0 && fence === undefined }) }
}

type CountedSteps = Omit<JournalView, 'ending'>

function endingOf(steps: readonly Step[], counted: CountedSteps, judge: { rules: ViewRules; doubtfulFence: boolean }): JournalEnding {
  // A lagging replica may still show the return of an earlier use of the id, which has been deleted. No return precedes the held or work step it ends.
  const begun = Math.max(counted.held?.sequence ?? 0, counted.work?.sequence ?? 0)
  const returns = steps.filter((step) => step.kind === 'return' && step.sequence > begun).sort((a, b) => a.sequence - b.sequence)
  const first = returns.find((step) => isValidReturn(step, counted, judge.rules))
  if (first) return { kind: 'return', step: first }
  return returns.some((step) => !isLateFirst(step, judge.rules)) || judge.doubtfulFence ? { kind: 'unclear' } : { kind: 'none' }
}

function isValidFence(fence: Step, work: Step, rules: ViewRules): boolean {
  if (fence.by !== fence.key.subagent || fence.attempt < 2 || !guardsJournal(fence)) return false
  const before = fence.guard?.sequence ?? 0
  if (fence.attempt === 2) return before === work.sequence || (rules.trust_fences && before > work.sequence)
  return rules.trust_fences && before > work.sequence
}

function isValidReturn(step: Step, counted: CountedSteps, rules: ViewRules): boolean {
  const before = step.guard?.sequence
  if (before === undefined) return false
  if (step.by !== SYSTEM) return step.by === step.key.subagent && guardsJournal(step) && before === attemptBegin(step.attempt, counted)
  // The timekeeper uses this guard as a last resort against a worker that floods the journal. It is the first return of the system. An earlier return
  // of the worker may be hidden by a later one, so a caller must ask the audit service. For a worker the journal has ended in both cases.
  if (step.guard?.subject === `return.${journalFilter(step.key).slice(2, -1)}${SYSTEM}`) return rules.trust_fences
  if (step.guard?.subject === `return.${journalFilter(step.key).slice(2)}`) return before === 0
  if (!guardsJournal(step)) return false
  if (before === 0 || step.first) return !isLateFirst(step, rules)
  return [counted.held, counted.work, counted.fence].some((named) => named?.sequence === before)
}

/** Returns the sequence of the step that began an attempt, if it was found. */
function attemptBegin(attempt: number, counted: CountedSteps): number | undefined {
  if (attempt === 1) return counted.work?.sequence
  return counted.fence?.attempt === attempt ? counted.fence.sequence : undefined
}

function guardsJournal(step: Step): boolean {
  return step.guard?.subject === journalFilter(step.key)
}

/** Applies rule 5: returns true for a first step that was stored too late and is not itself an expiry. */
export function isLateFirst(step: Step, rules: JournalRules): boolean {
  return isFirst(step) && !isExpiry(step) && firstStepIsLate(step, rules)
}
