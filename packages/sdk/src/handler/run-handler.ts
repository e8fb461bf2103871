/**
 * Stage 4 of a pass, second half. In: a run that may begin. Out: the return of the run (`result.ts`, `attempt/publish-return.ts`), and what to do with
 * the delivery. Loads the context and calls the handler.
 */

import { joinContext, type LoadedPart } from '@passover/bus'
import { PassOverError, passError } from '@passover/core'
import type { HandlerResult, WorkContext } from '@passover/schemas'
import { logAttemptEnd } from '../attempt/outcome-log.js'
import { type PublishReturnResult, publishLate, type RunResult } from '../attempt/publish-return.js'
import { isPastDeadline, type Run } from '../attempt/run.js'
import { inWorkSpan } from '../attempt/tracing.js'
import { inScope } from './async-context.js'
import { HandlerPass, type WorkerContext } from './handler-pass.js'
import { loadContext } from './load-context.js'
import type { Handler } from './pass.js'
import { handlerError, returnResult, validateResult } from './result.js'

/** Result of calling a handler. `unread`: the handler was not called, because the run had to stop before its context was loaded. */
type HandlerOutcome = { kind: 'output'; result: HandlerResult } | { kind: 'nothing' | 'unread' } | { kind: 'threw'; error: unknown }

/** Action for the delivery of a finished run (rule 7). */
export type DeliveryAction = 'ack' | 'hand_back' | 'leave'

/** Runs the handler of an attempt, publishes its return, logs the outcome, and returns the action for the delivery. */
export function runHandler(worker: WorkerContext, run: Run, handler: Handler): Promise<DeliveryAction> {
  return worker.deps.tracing?.on
    ? inWorkSpan(worker.deps.tracing, worker.deps, { run, work: () => executeRun(worker, run, handler) })
    : executeRun(worker, run, handler)
}

async function executeRun(worker: WorkerContext, run: Run, handler: Handler): Promise<DeliveryAction> {
  const { faults } = worker.deps
  if (faults) await faults.at('worker:before-run', run.key)
  const calling = callHandler(worker, run, handler)
  const outcome = calling instanceof Promise ? await calling : calling
  if (faults) await faults.at('worker:after-run', run.key)
  if (run.returning)
    return afterPublish(worker, run, { published: await run.returning, outcome: run.stop === 'compute_time' ? outcome : undefined })
  if (run.stop === 'drain') {
    logAttemptEnd(worker, run, { end: 'handed_back' })
    return 'hand_back'
  }
  if (run.stop === 'ended' || run.stop === 'lost') {
    logAttemptEnd(worker, run, { end: run.stop })
    await publishLateOutput(worker, run, outcome)
    return run.stop === 'ended' ? 'ack' : 'leave'
  }
  // The connection was closed: another attempt may be able to load the context.
  if (outcome.kind === 'unread' && !isPastDeadline(worker.deps, run)) return 'leave'
  const validating = resultOf(worker, run, outcome)
  const result = validating instanceof Promise ? await validating : validating
  const published = await returnResult(worker, run, result)
  return afterPublish(worker, run, { published, outcome })
}

function afterPublish(
  worker: WorkerContext,
  run: Run,
  { published, outcome }: { published: PublishReturnResult; outcome: HandlerOutcome | undefined },
): DeliveryAction | Promise<DeliveryAction> {
  logAttemptEnd(worker, run, { end: published, ...(outcome?.kind === 'threw' && { thrown: outcome.error }) })
  const action = (published === 'returned' && !run.unproved) || published === 'ended' ? 'ack' : 'leave'
  const isLate = published !== 'returned' || run.stop === 'compute_time' || run.stop === 'deadline'
  return outcome && isLate ? publishLateOutput(worker, run, outcome).then(() => action) : action
}

async function publishLateOutput(worker: WorkerContext, run: Run, outcome: HandlerOutcome): Promise<void> {
  if (outcome.kind !== 'output') return
  const result = await validateResult(worker, run, outcome.result)
  if ('output' in result) await publishLate(worker, run, result.output)
}

/** Calls the handler. Returns no promise if there is nothing to wait for: promises are expensive where async contexts are tracked, as in a worker. */
function callHandler(worker: WorkerContext, run: Run, handler: Handler): HandlerOutcome | Promise<HandlerOutcome> {
  try {
    if (run.parts.some((part) => part.data === undefined)) return loadAndCall(worker, run, handler)
    const returned = invoke(worker, run, { handler, parts: () => inlineParts(run) })
    return isThenable(returned) ? Promise.resolve(returned).then(outcomeOf, thrownOutcome) : outcomeOf(returned)
  } catch (error) {
    return thrownOutcome(error)
  }
}

async function loadAndCall(worker: WorkerContext, run: Run, handler: Handler): Promise<HandlerOutcome> {
  try {
    const loaded = await loadContext(worker.deps, run)
    // The run may have been stopped, or its deadline may have passed, while the last part was loaded.
    if (!loaded || run.stop !== undefined || isPastDeadline(worker.deps, run)) return { kind: 'unread' }
    if (run.control.policy.max_compute_time_ms !== undefined)
      run.compute_until = worker.deps.clock.monotonic() + run.control.policy.max_compute_time_ms
    return outcomeOf(await invoke(worker, run, { handler, parts: () => loaded }))
  } catch (error) {
    return thrownOutcome(error)
  }
}

function invoke(worker: WorkerContext, run: Run, work: { handler: Handler; parts: () => LoadedPart[] }) {
  const pass = new HandlerPass(worker, run, contextOf(work.parts))
  const { span } = run
  return inScope(pass, span ? () => span.within(() => work.handler(pass)) : () => work.handler(pass))
}

// biome-ignore lint/suspicious/noConfusingVoidType: a handler that returns nothing may say so.
function outcomeOf(result: HandlerResult | undefined | void): HandlerOutcome {
  return result === undefined ? { kind: 'nothing' } : { kind: 'output', result }
}

function thrownOutcome(error: unknown): HandlerOutcome {
  return { kind: 'threw', error }
}

function inlineParts(run: Run): LoadedPart[] {
  return run.parts.map(({ name, data }) => ({ name, data: data ?? new Uint8Array() }))
}

function isThenable<T>(value: T | Promise<T>): value is Promise<T> {
  return typeof (value as { then?: unknown } | undefined)?.then === 'function'
}

/** Returns a function that joins the parts to a context at its first call. */
function contextOf(parts: () => LoadedPart[]): () => WorkContext {
  let context: WorkContext | undefined
  return () => {
    if (context) return context
    const joined = joinContext(parts())
    if (!joined.ok) throw new PassOverError('E011', `the context cannot be assembled: ${joined.error}`)
    context = joined.value
    return context
  }
}

function resultOf(worker: WorkerContext, run: Run, outcome: HandlerOutcome): RunResult | Promise<RunResult> {
  switch (outcome.kind) {
    case 'output':
      return validateResult(worker, run, outcome.result)
    case 'threw':
      return thrownResult(outcome.error, run)
    default:
      return { error: passError('E021', 'the handler returned nothing and did not call return()') }
  }
}

/** Builds the result for a handler that threw. A raw output in `context.raw_output` of the error is kept like one that the handler returned. */
function thrownResult(thrown: unknown, run: Run): RunResult {
  const error = handlerError(thrown, run)
  const { raw_output, ...details } = error.details ?? {}
  return raw_output === undefined ? { error } : { error: { ...error, details }, raw_output }
}
