import type { Delivery } from '@passover/bus'
import { PassOverError, passError, type Span } from '@passover/core'
import type { Part, PassError, PassKey, Step, WorkControl } from '@passover/schemas'
import type { WorkContent } from '../messages/work-envelope.js'
import type { Deps } from '../runtime/dependencies.js'
import type { AttemptStart } from './begin-attempt.js'
import { LazyAbortController } from './lazy-abort-controller.js'
import type { PublishReturnResult, RunResult } from './publish-return.js'

/** Why a running handler was told to stop. */
export type StopReason =
  /** The pass's deadline passed: the timekeeper ends it. */
  | 'deadline'
  /** The handler's own time is used up: this worker ended the pass with E010. */
  | 'compute_time'
  /** Someone else ended the pass. */
  | 'ended'
  /** A newer attempt began. */
  | 'lost'
  /** The worker shuts down and hands the work back. */
  | 'drain'

/** One attempt at a pass in this process. */
export interface Run {
  readonly key: PassKey
  readonly control: WorkControl
  readonly delivery: Delivery
  readonly parts: Part[]
  readonly attempt: number
  /** Sequence that the return expects. */
  readonly guard: number
  /** Sequence of this attempt's last step that counts: what its children name (docs/architecture/protocol.md#parents-and-chains). */
  readonly proof: number
  readonly nonce: string
  /** Server ms. */
  readonly began_at: number
  /** Server ms; the pass's end. */
  readonly deadline: number
  /** Server ms; the end of the handler's own time. Until its context is loaded the handler has not begun. */
  compute_until: number
  readonly abort: LazyAbortController
  stop: StopReason | undefined
  /** The one answer that was begun. */
  returning: Promise<PublishReturnResult> | undefined
  startPublished: boolean
  progress: { message?: string; fraction?: number } | undefined
  /** Settles when all that was told so far is stored; undefined: it is, or nothing was. */
  publishing: Promise<void> | undefined
  /** Server ms of the last progress event. */
  progress_at: number
  /** Where it is traced in this process. */
  span: Span | undefined
  /** What its return says. */
  result: RunResult | undefined
  /** Who else ended the pass, and with what, once that was heard or read. */
  ended: { by: string; error: PassError | undefined } | undefined
  /** What became of it was told. */
  endLogged: boolean
}

/** Tells the handler to stop, once. */
export function stopRun(run: Run, why: StopReason, reason: Error): void {
  if (run.stop !== undefined) return
  run.stop = why
  run.abort.abort(reason)
}

/** Nothing that this run returns from now on counts: the pass ends with E010. */
export function isPastDeadline({ bus, clock }: Pick<Deps, 'bus' | 'clock'>, run: Run): boolean {
  return run.stop === 'deadline' || (bus.clockMeasured && clock.now() >= run.deadline)
}

/** Tells the handler that its pass's deadline has passed. */
export function stopAtDeadline(run: Run): PassError {
  const error = passError('E010', `the deadline of ${run.control.timeout_ms} ms passed`)
  stopRun(run, 'deadline', PassOverError.from(error))
  return error
}

/** How somebody else's return ended the pass. */
export function terminationBy({ by, code }: Step): Run['ended'] {
  return { by, error: code && passError(code, 'the pass had ended') }
}

export interface RunStart {
  key: PassKey
  delivery: Delivery
  envelope: WorkContent
  nonce: string
  begun: Extract<AttemptStart, { kind: 'run' }>
  /** Server ms. */
  now: number
}

export function makeRun({ key, delivery, envelope, nonce, begun, now }: RunStart): Run {
  const { control, parts } = envelope
  const { attempt, guard, proof } = begun
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
    began_at: now,
    deadline: delivery.time + control.timeout_ms,
    compute_until: compute === undefined || parts.some(({ data }) => data === undefined) ? Number.POSITIVE_INFINITY : now + compute,
    abort: new LazyAbortController(),
    stop: undefined,
    returning: undefined,
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
