import { type PassKey, type Step, SYSTEM } from '@passover/schemas'
import { isLateFirst, type ViewRules } from '../journal/journal-view.js'

/** Identity of a running attempt. */
export interface RunningAttempt {
  key: PassKey
  attempt: number
  /** Sequence of the last step when the attempt began. */
  guard: number
  /** Nonce of the attempt's own fence and return. */
  nonce: string
}

/** State of a pass, as seen by an attempt that runs. */
export type AttemptStatus =
  /** The attempt's own return is stored. */
  | { kind: 'returned' }
  | { kind: 'ended'; step: Step }
  | { kind: 'newer_attempt' }
  /** No valid step followed. `last` is the sequence of the last step found, which the next guard expects. */
  | { kind: 'unchanged'; last: number }

/**
 * Judges the steps that exact gets found, from the view of the running attempt. A step without effect (an answer that the server published on behalf
 * of a client, a fence out of order, a second work step) only moves the guard: the attempt keeps its result and publishes it after that step. If such
 * a step hides a newer one on its subject, or a lagging replica hides one before it, the return is stored after it and readers ignore it (see
 * `Run.unproved`).
 */
export function attemptStatus(run: RunningAttempt, steps: readonly Step[], rules: ViewRules): AttemptStatus {
  const newer = steps.filter(({ sequence }) => sequence > run.guard).sort((a, b) => a.sequence - b.sequence)
  for (const step of newer) {
    const change = changeBy(step, run, rules)
    if (change) return change
  }
  return { kind: 'unchanged', last: newer.at(-1)?.sequence ?? run.guard }
}

function changeBy(step: Step, run: RunningAttempt, rules: ViewRules): AttemptStatus | undefined {
  if (step.untrusted !== undefined) return undefined
  const isWorkers = step.by === run.key.subagent
  if (step.kind === 'fence') return isWorkers && step.attempt > run.attempt ? { kind: 'newer_attempt' } : undefined
  if (step.kind !== 'return') return undefined
  if (step.by === SYSTEM) return isLateFirst(step, rules) ? undefined : { kind: 'ended', step }
  if (!isWorkers || step.attempt < run.attempt) return undefined
  if (step.attempt > run.attempt) return { kind: 'newer_attempt' }
  return step.nonce === run.nonce ? { kind: 'returned' } : { kind: 'ended', step }
}
