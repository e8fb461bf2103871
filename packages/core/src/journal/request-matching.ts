import { LIMITS, type RequestFact, type Step, SYSTEM } from '@passover/schemas'

/**
 * The request that a step answers, as far as it may say so: only held and work steps and the system's returns are
 * written by `passover` alone, and only their headers `request` and `requested_at` are believed, with times that are some.
 */
export function requestNamed(step: Step): { sequence: number; time?: number } | undefined {
  if (step.request === undefined || !isSystemStep(step)) return undefined
  const time = requestTime(step)
  return { sequence: step.request, ...(time === undefined ? {} : { time }) }
}

/** Stored time of the request that a step answers (server ms), where that may be believed. */
export function requestTime(step: Step): number | undefined {
  if (step.requested_at === undefined || !isSystemStep(step)) return undefined
  return step.requested_at <= LIMITS.time ? step.requested_at : undefined
}

/** Whether a step answers this request: it names it, may do so, and is between the same two agents. */
export function answersRequest(step: Step, request: Pick<RequestFact, 'originator' | 'subagent' | 'sequence'>): boolean {
  const { originator, subagent } = step.key
  return step.request === request.sequence && isSystemStep(step) && originator === request.originator && subagent === request.subagent
}

/** Whether a step is one that `passover` alone writes: held, work, or its own return. No other step can begin a pass. */
export function isSystemStep({ kind, by }: Step): boolean {
  return kind === 'held' || kind === 'work' || (kind === 'return' && by === SYSTEM)
}

/** Whether a step is the refusal of a request whose id is too old (rule 5). */
export function isExpiry(step: Step): boolean {
  return step.kind === 'return' && step.by === SYSTEM && step.code === 'E005'
}
