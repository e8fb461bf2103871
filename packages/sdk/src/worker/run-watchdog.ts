import type { ReceivedReturn } from '@passover/bus'
import { PassOverError, passError } from '@passover/core'
import { attemptStatus } from '../attempt/attempt-status.js'
import { publishProgress } from '../attempt/progress-reporter.js'
import { type Run, stopAtDeadline, stopRun, terminationBy } from '../attempt/run.js'
import type { WorkerContext } from '../handler/handler-pass.js'
import { returnResult } from '../handler/result.js'
import { terminationError, terminationReason } from '../messages/decode-work.js'
import type { LeaseRenewer } from './lease-renewer.js'

/**
 * Stops a run whose time is over, and publishes its progress. Called by the worker's sweep. While the server's time is unknown, the timekeeper alone
 * ends a run at its deadline: the local clock may be minutes fast (decision 66).
 */
export function watchRun(context: WorkerContext, run: Run, now: number): void {
  const { bus, clock } = context.deps
  if (bus.clockKnown && now >= run.deadline) stopAtDeadline(run)
  else if (clock.monotonic() >= run.compute_until) endAtComputeTime(context, run)
  publishProgress(context, run, now)
}

/** Checks after a late renewal whether another attempt has begun or the pass has ended. Renews the lease if not. */
export async function checkSuperseded(context: WorkerContext, run: Run, leases: LeaseRenewer): Promise<void> {
  const steps = await context.deps.bus.journal.glimpse(run.key).catch(() => [])
  // Nothing was read: the lease is not renewed until a later check succeeds.
  if (steps.length === 0) return
  const status = attemptStatus(run, steps, context.rules)
  if (status.kind === 'ended') {
    run.ended ??= terminationBy(status.step)
    stopRun(run, 'ended', new PassOverError('E013', 'the pass has ended'))
  } else if (status.kind === 'newer_attempt') {
    // Released even if the handler keeps running: the lease belongs to the newer attempt.
    leases.release(run.delivery)
    stopRun(run, 'lost', new PassOverError('E011', 'a newer attempt has started'))
  } else leases.renew(run.delivery)
}

/** Stops a run because the system ended its pass. */
export function terminateRun(run: Run, ending: ReceivedReturn): void {
  const error = terminationError(ending)
  run.ended ??= { by: ending.by, error }
  stopRun(run, 'ended', terminationReason(error))
}

function endAtComputeTime(context: WorkerContext, run: Run): void {
  if (run.stop !== undefined || run.returning) return
  const error = passError('E010', `the handler used up its max_compute_time_ms of ${run.control.policy.max_compute_time_ms}`)
  stopRun(run, 'compute_time', PassOverError.from(error))
  void returnResult(context, run, { error }).catch(() => undefined)
}
