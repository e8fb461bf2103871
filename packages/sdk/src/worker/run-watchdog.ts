import type { ReceivedReturn } from '@passover/bus'
import { PassOverError, passError } from '@passover/core'
import { attemptStatus } from '../attempt/attempt-status.js'
import { publishProgress } from '../attempt/progress-reporter.js'
import { type Run, stopAtDeadline, stopRun, terminationBy } from '../attempt/run.js'
import type { WorkerContext } from '../handler/handler-pass.js'
import { returnResult } from '../handler/result.js'
import { terminationError, terminationReason } from '../messages/work-envelope.js'
import type { LeaseRenewer } from './lease-renewer.js'

/** From the worker's sweep: stops a run whose time is over, and tells how far it is. */
export function watchRun(context: WorkerContext, run: Run, now: number): void {
  if (now >= run.deadline) stopAtDeadline(run)
  else if (now >= run.compute_until) endAtComputeTime(context, run)
  publishProgress(context, run, now)
}

/** The lease was not renewed in time: another attempt may have begun. */
export async function checkSuperseded(context: WorkerContext, run: Run, leases: LeaseRenewer): Promise<void> {
  const steps = await context.deps.bus.journal.glimpse(run.key).catch(() => [])
  // Nothing was read: it is looked at again, and not renewed until then.
  if (steps.length === 0) return
  const since = attemptStatus(run, steps, context.rules)
  if (since.kind === 'ended') {
    run.ended ??= terminationBy(since.step)
    stopRun(run, 'ended', new PassOverError('E013', 'the pass has ended'))
  } else if (since.kind === 'newer_attempt') {
    // However long its handler goes on: the lease is the newer attempt's.
    leases.release(run.delivery)
    stopRun(run, 'lost', new PassOverError('E011', 'a newer attempt has begun'))
  } else leases.renew(run.delivery)
}

/** `passover` ended the pass. */
export function terminateRun(run: Run, heard: ReceivedReturn): void {
  const error = terminationError(heard)
  run.ended ??= { by: heard.by, error }
  stopRun(run, 'ended', terminationReason(error))
}

function endAtComputeTime(context: WorkerContext, run: Run): void {
  if (run.stop !== undefined || run.returning) return
  const error = passError('E010', `the handler used up its max_compute_time_ms of ${run.control.policy.max_compute_time_ms}`)
  stopRun(run, 'compute_time', PassOverError.from(error))
  void returnResult(context, run, { error }).catch(() => undefined)
}
