import { LIMITS, type RequestFact, type Step, SYSTEM } from '@passover/schemas'

/**
 * Returns the request that a step answers, if the step can be trusted to name it. Only held steps, work steps and the system's returns are written by
 * `passover` alone, so only their headers `request` and `requested_at` are used, and only with a valid time.
 */
export function requestNamed(step: Step): { sequence: number; time?: number } | undefined {
  if (step.request === undefined || !isSystemStep(step)) return undefined
  const time = requestTime(step)
  return { sequence: step.request, ...(time === undefined ? {} : { time }) }
}

/** Returns the stored time (server ms) of the request that a step answers, or `undefined` if it cannot be trusted. */
export function requestTime(step: Step): number | undefined {
  if (step.requested_at === undefined || !isSystemStep(step)) return undefined
  return step.requested_at <= LIMITS.time ? step.requested_at : undefined
}

/** Returns true if a step answers this request: it names the request, is written by the system, and has the same originator and subagent. */
export function answersRequest(step: Step, request: Pick<RequestFact, 'originator' | 'subagent' | 'sequence'>): boolean {
  const { originator, subagent } = step.key
  return step.request === request.sequence && isSystemStep(step) && originator === request.originator && subagent === request.subagent
}

/** Returns true for a step that only `passover` writes: held, work, or the system's return. No other step can begin a pass. */
export function isSystemStep({ kind, by }: Step): boolean {
  return kind === 'held' || kind === 'work' || (kind === 'return' && by === SYSTEM)
}

/** Returns true if a step is the refusal of a request whose id is too old (rule 5). */
export function isExpiry(step: Step): boolean {
  return step.kind === 'return' && step.by === SYSTEM && step.code === 'E005'
}
