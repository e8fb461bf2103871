import type { Delivery } from '@passover/bus'
import { PassOverError, passError, type Span } from '@passover/core'
import type { Part, PassError, PassKey, Step, WorkControl } from '@passover/schemas'
import type { WorkContent } from '../messages/decode-work.js'
import type { Deps } from '../runtime/dependencies.js'
import type { AttemptStart } from './begin-attempt.js'
import { LazyAbortController } from './lazy-abort-controller.js'
import type { PublishReturnResult, RunResult } from './publish-return.js'

/** Reasons for which a running handler is stopped. */
export type StopReason =
  /** The deadline of the pass has passed: the timekeeper ends it. */
  | 'deadline'
  /** The handler has used up its compute time: this worker ends the pass with E010. */
  | 'compute_time'
  /** Another process ended the pass. */
  | 'ended'
  /** A newer attempt began. */
  | 'lost'
  /** The worker shuts down and returns the work to the queue. */
  | 'drain'

/** One attempt at a pass in this process. */
export interface Run {
  readonly key: PassKey
  readonly control: WorkControl
  readonly delivery: Delivery
  readonly parts: Part[]
  readonly attempt: number
  /** Stream sequence of the step that the return must follow. */
  readonly guard: number
  /** Stream sequence of this attempt's last valid step, which its children name as proof (docs/architecture/protocol.md#parents-and-chains). */
  readonly proof: number
  readonly nonce: string
  /** Start of the attempt, in server ms. */
  readonly began_at: number
  /** Deadline of the pass, in server ms. */
  readonly deadline: number
  /**
   * End of the handler's compute time, by the monotonic clock in ms. Infinite without a limit, and until the context is loaded, because the handler has not begun
   * before.
   */
  compute_until: number
  readonly abort: LazyAbortController
  stop: StopReason | undefined
  /** Outcome of publishing the return, once that has begun. There is only one return per run. */
  returning: Promise<PublishReturnResult> | undefined
  /**
   * True after the return was published after a step that does not count, with any answer. A lagging replica may have hidden a newer attempt before
   * that step, so the return may not count, and the delivery may belong to that attempt: it is not acknowledged (rule 8).
   */
  unproved: boolean
  startPublished: boolean
  progress: { message?: string; fraction?: number } | undefined
  /** Settles when all events published so far are stored. `undefined` if none is pending. */
  publishing: Promise<void> | undefined
  /** Time of the last progress event, in server ms. */
  progress_at: number
  /** Span of the run in this process. */
  span: Span | undefined
  /** Content of its return. */
  result: RunResult | undefined
  /** Agent that ended the pass instead of this run, and with which error, once that is known. */
  ended: { by: string; error: PassError | undefined } | undefined
  /** True if the end of the attempt was logged. */
  endLogged: boolean
}

/** Stops the handler by aborting its signal. Only the first call has an effect. */
export function stopRun(run: Run, why: StopReason, reason: Error): void {
  if (run.stop !== undefined) return
  run.stop = why
  run.abort.abort(reason)
}

/** Returns true if the pass ends with E010, and no return of this run can change that. */
export function isPastDeadline({ bus, clock }: Pick<Deps, 'bus' | 'clock'>, run: Run): boolean {
  return run.stop === 'deadline' || (bus.clockMeasured && clock.now() >= run.deadline)
}

/** Stops the handler because the deadline of its pass has passed. Returns the error of the pass. */
export function stopAtDeadline(run: Run): PassError {
  const error = passError('E010', `the deadline of ${run.control.timeout_ms} ms passed`)
  stopRun(run, 'deadline', PassOverError.from(error))
  return error
}

/** Describes how a return that is not from this run ended the pass. */
export function terminationBy({ by, code }: Step): Run['ended'] {
  return { by, error: code && passError(code, 'the pass has already ended') }
}

export interface RunStart {
  key: PassKey
  delivery: Delivery
  content: WorkContent
  nonce: string
  start: Extract<AttemptStart, { kind: 'run' }>
  clock: Deps['clock']
}

export function makeRun({ key, delivery, content, nonce, start, clock }: RunStart): Run {
  const { control, parts } = content
  const { attempt, guard, proof } = start
  const compute = control.policy.max_compute_time_ms
  return {
    key,
    control,
    delivery,
    parts,
    attempt,
    guard,
    proof,
    nonce,
    began_at: clock.now(),
    deadline: delivery.time + control.timeout_ms,
    compute_until:
      compute === undefined || parts.some(({ data }) => data === undefined) ? Number.POSITIVE_INFINITY : clock.monotonic() + compute,
    abort: new LazyAbortController(),
    stop: undefined,
    returning: undefined,
    unproved: false,
    startPublished: false,
    progress: undefined,
    publishing: undefined,
    progress_at: 0,
    span: undefined,
    result: undefined,
    ended: undefined,
    endLogged: false,
  }
}
