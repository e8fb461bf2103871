import type { Heard } from '@passover/bus'
import { PassOverError, passError } from '@passover/core'
import { sinceBegun } from '../attempt/attempt-status.js'
import { tellProgress } from '../attempt/progress-reporter.js'
import { endOf, type Run, stopAtDeadline, stopRun } from '../attempt/run.js'
import type { WorkerContext } from '../handler/handler-pass.js'
import { answerRun } from '../handler/result.js'
import { endingError, endingReason } from '../messages/work-envelope.js'
import type { Leases } from './lease-renewer.js'

/** From the worker's sweep: stops a run whose time is over, and tells how far it is. */
export function watchRun(context: WorkerContext, run: Run, now: number): void {
  if (now >= run.deadline) stopAtDeadline(run)
  else if (now >= run.compute_until) endAtComputeTime(context, run)
  tellProgress(context, run, now)
}

/** The lease was not renewed in time: another attempt may have begun. */
export async function lookWhetherLost(context: WorkerContext, run: Run, leases: Leases): Promise<void> {
  const steps = await context.deps.bus.journal.glimpse(run.key).catch(() => [])
  // Nothing was read: it is looked at again, and not renewed until then.
  if (steps.length === 0) return
  const since = sinceBegun(run, steps, context.rules)
  if (since.kind === 'ended') {
    run.ended ??= endOf(since.step)
    stopRun(run, 'ended', new PassOverError('E013', 'the pass has ended'))
  } else if (since.kind === 'newer_attempt') {
    // However long its handler goes on: the lease is the newer attempt's.
    leases.release(run.delivery)
    stopRun(run, 'lost', new PassOverError('E011', 'a newer attempt has begun'))
  } else leases.renew(run.delivery)
}

/** `passover` ended the pass. */
export function endRun(run: Run, heard: Heard): void {
  const error = endingError(heard)
  run.ended ??= { by: heard.by, error }
  stopRun(run, 'ended', endingReason(error))
}

function endAtComputeTime(context: WorkerContext, run: Run): void {
  if (run.stop !== undefined || run.answer) return
  const error = passError('E010', `the handler used up its max_compute_time_ms of ${run.control.policy.max_compute_time_ms}`)
  stopRun(run, 'compute_time', PassOverError.from(error))
  void answerRun(context, run, { error }).catch(() => undefined)
}
