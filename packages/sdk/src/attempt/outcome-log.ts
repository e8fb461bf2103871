import type { PublishReturnResult } from './publish-return.js'
import type { Run } from './run.js'
import { attemptText, type Discarded, type WorkerLogger } from './worker-events.js'

/** Result of an attempt: the outcome of its return, or that its work was returned to the queue. */
export interface AttemptEnd {
  end: PublishReturnResult | 'handed_back'
  /** Error that the handler threw, or that prevented the output from being stored. */
  thrown?: unknown
}

const DISCARD_REASONS: Record<Discarded, string> = {
  ended: 'the pass has already ended',
  lost: 'another attempt returned',
  gave_up: 'the server did not accept its return',
  handed_back: 'the worker shut down and returned the work to the queue',
}

/** Logs the end of an attempt, once. Only now is it known whether the pass ended with the result of this attempt. */
export function logAttemptEnd(worker: { logger: WorkerLogger }, run: Run, ended: AttemptEnd): void {
  if (run.endLogged) return
  run.endLogged = true
  const { key: pass, attempt, result } = run
  const { end, ...thrown } = ended
  if (end !== 'returned') logDiscarded(worker, run, { end, ...thrown })
  else if (result && 'error' in result) {
    const { error } = result
    const text = attemptText({ pass, attempt, what: `${error.code} ${error.message}`, ...thrown })
    worker.logger({ kind: 'failed', pass, attempt, error, ...thrown, text })
  } else if (result) {
    const { status } = result.output
    worker.logger({ kind: 'returned', pass, attempt, status, text: attemptText({ pass, attempt, what: status }) })
  }
}

function logDiscarded(worker: { logger: WorkerLogger }, run: Run, { end, thrown }: { end: Discarded; thrown?: unknown }): void {
  const { key: pass, attempt, result, ended } = run
  // A return of the same agent ended the pass: it is that of another attempt.
  const why = end === 'ended' && ended?.by === pass.subagent ? 'lost' : end
  const own = result && 'error' in result ? result.error : undefined
  const ending = why === 'ended' ? ended?.error : undefined
  const isSame = own !== undefined && own.code === ending?.code
  const error = isSame ? own : ending
  const suffix = error ? `: ${error.code} ${error.message}` : ''
  const failing = own && !isSame ? `; its own error was ${own.code} ${own.message}` : ''
  const text = attemptText({ pass, attempt, what: `discarded, ${DISCARD_REASONS[why]}${suffix}${failing}`, ...(!isSame && { thrown }) })
  worker.logger({ kind: 'discarded', pass, attempt, why, ...(error && { error }), text })
}
