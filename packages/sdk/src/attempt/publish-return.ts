/**
 * Stage 5 of a pass, in the worker. In: the result of a run. Out: the return in the stream, and whether it was stored.
 * Stores large artifacts first. Publishes again after a publish that was not confirmed, unless the journal shows that the attempt is over.
 */

import { CONTENT_TYPE, encode, type PublishMessage, splitOutput } from '@passover/bus'
import { cut, PassOverError, packOutput, passError } from '@passover/core'
import { HEADER, type PassError, type PassKey, type ReturnEnvelope, type Step, WIRE_VERSION, type WorkOutput } from '@passover/schemas'
import { describeThrown } from '../errors/describe-thrown.js'
import { tooLargeError, toSendableValue } from '../errors/sendable-error.js'
import type { ViewRules } from '../journal/journal-view.js'
import { eventHeaders } from '../messages/publish.js'
import { uploadAllParts } from '../messages/upload-parts.js'
import { type Deps, sleep } from '../runtime/dependencies.js'
import { attemptStatus } from './attempt-status.js'
import { isPastDeadline, type Run, terminationBy } from './run.js'
import { inReturnSpan, passTrace } from './tracing.js'

/** Outcome of publishing a return. `lost`: a newer attempt began. `gave_up`: the server did not answer for 15 s. */
export type PublishReturnResult = 'returned' | 'ended' | 'lost' | 'gave_up'

/** Result of a run: an output or an error. */
export type RunResult = { output: WorkOutput } | { error: PassError; raw_output?: unknown }

export interface ReturnContext {
  deps: Deps
  agent: string
  rules: ViewRules
}

/** Milliseconds for which publishing is repeated: a cluster may have no leader for that long. */
const TIMEOUT_MS = 15_000
const FULL_RETRY_MS = 500
/** Maximum size in bytes of a late output that is stored completely. For a larger output, text and artifacts are left out. */
const MAX_LATE_BYTES = 262_144
/**
 * Number of tries that take the guard from the journal alone. A lagging replica usually shows the step that caused the refusal within that number.
 */
const MAX_TRIES_BY_READ = 4
/** Length to which the raw output beside an error is cut if the body would exceed four times as many bytes. */
const MAX_RAW_TEXT = 65_536
const TOO_LARGE_HINT = 'return a shorter summary or fewer artifacts; large artifacts and texts are stored separately'

/**
 * Publishes the return of this attempt after its last step (docs/architecture/worker.md#giving-back). If the guard refuses it, reads the journal to
 * see which step came first. If the outcome is unknown, reads the journal too and publishes again under the same guard for up to 15 s.
 */
export function publishReturn(context: ReturnContext, run: Run, result: RunResult): Promise<PublishReturnResult> {
  return run.span ? inReturnSpan(context.deps, run, () => buildAndPublish(context, run, result)) : buildAndPublish(context, run, result)
}

function buildAndPublish(context: ReturnContext, run: Run, result: RunResult): Promise<PublishReturnResult> {
  const { deps } = context
  try {
    const building = returnStep(context, run, result)
    if (building instanceof Promise || deps.faults) return publishWithRetries(context, run, { result, building })
    return deps.bus
      .publish(building)
      .then(({ kind }) => (kind === 'stored' ? 'returned' : publishWithRetries(context, run, { result, building })))
  } catch (error) {
    // The value changed since it was validated, for example through a getter of the handler. A further attempt would repeat the work, so the pass
    // ends with an error.
    if ('error' in result) return Promise.reject(error)
    run.result = { error: passError('E021', `the output cannot be encoded: ${describeThrown(error).message}`), raw_output: result.output }
    return buildAndPublish(context, run, run.result)
  }
}

async function publishWithRetries(
  context: ReturnContext,
  run: Run,
  { result, building }: { result: RunResult; building: PublishMessage | Promise<PublishMessage> },
): Promise<PublishReturnResult> {
  const { deps } = context
  const message = await unlessFull(building)
  if (message instanceof PassOverError) {
    if ('error' in result) throw message
    // A new attempt would find the same bucket full, so the originator gets the error now.
    run.result = { error: passError(message.code, message.message, { ...message.context, recoverable: false }) }
    return publishReturn(context, run, run.result)
  }
  if (deps.faults) await deps.faults.at('worker:before-return', run.key)
  const until = deps.clock.monotonic() + TIMEOUT_MS
  for (;;) {
    const advanced = await deps.bus.journal.advance<PublishReturnResult>(
      run.key,
      (steps, tries, refused_by = 0) => {
        const resultOrGuard = tries === 0 ? run.guard : resultInJournal(context, run, steps)
        if (typeof resultOrGuard === 'string') return { done: resultOrGuard }
        // After the deadline the return would race the timekeeper.
        if (tries > 0 && 'output' in result && isPastDeadline(deps, run)) return { done: 'gave_up' }
        // A newer step may be on a subject that no exact get reads. The server reports its sequence if it knows it.
        const sequence = tries < MAX_TRIES_BY_READ ? resultOrGuard : Math.max(resultOrGuard, refused_by)
        const guard = { subject: context.deps.bus.subjects.journal(run.key), sequence }
        // Set before the publish: even without an answer, the return may be stored, and then a later read finds it.
        run.unproved ||= sequence !== run.guard
        return { publish: { ...message, guard }, stored: () => 'returned' }
      },
      { read: 'glimpse', known: [], deadline_ms: TIMEOUT_MS },
    )
    if (advanced.ok) {
      await deps.faults?.at('worker:after-return', run.key)
      return advanced.value
    }
    const { outcome } = advanced
    if (outcome.kind === 'refused' && outcome.reason === 'too_large' && 'output' in result) {
      const error = tooLargeError(`the output is larger than the maximum message size: ${outcome.description}`, TOO_LARGE_HINT)
      run.result = { error, raw_output: result.output }
      return publishReturn(context, run, run.result)
    }
    if (outcome.kind !== 'refused' || outcome.reason !== 'full' || deps.clock.monotonic() >= until) return 'gave_up'
    await sleep(deps.clock, FULL_RETRY_MS)
  }
}

/** Returns the message, or the error if the output did not fit into the worker's parts bucket. */
async function unlessFull(building: PublishMessage | Promise<PublishMessage>): Promise<PublishMessage | PassOverError> {
  try {
    return await building
  } catch (error) {
    if (error instanceof PassOverError && error.code === 'E014') return error
    throw error
  }
}

/**
 * Reads the journal to find the outcome of a return whose publish was not confirmed. Returns the outcome, or the sequence of the step after which to
 * publish the return again.
 */
function resultInJournal(context: ReturnContext, run: Run, steps: Step[]): PublishReturnResult | number {
  const status = attemptStatus(run, steps, context.rules)
  switch (status.kind) {
    case 'returned':
      return 'returned'
    case 'newer_attempt':
      return 'lost'
    case 'ended':
      run.ended ??= terminationBy(status.step)
      return 'ended'
    case 'unchanged':
      return status.last
  }
}

function returnStep(context: ReturnContext, run: Run, result: RunResult): PublishMessage | Promise<PublishMessage> {
  const json = run.control.reply_type === 'json'
  const data = bodyOf(context, run, { result, type: json ? 'json' : 'msgpack' })
  return data instanceof Promise
    ? data.then((bytes) => messageOf(context, run, { result, data: bytes, json }))
    : messageOf(context, run, { result, data, json })
}

function messageOf(
  context: ReturnContext,
  run: Run,
  { result, data, json }: { result: RunResult; data: Uint8Array; json: boolean },
): PublishMessage {
  const { subjects } = context.deps.bus
  const traceparent = passTrace(run)
  const headers: Record<string, string> = { [HEADER.attempt]: String(run.attempt), [HEADER.nonce]: run.nonce }
  headers[HEADER.status] = 'error' in result ? 'failed' : result.output.status
  if ('error' in result) headers[HEADER.code] = result.error.code
  if (json) headers[HEADER.contentType] = CONTENT_TYPE.json
  if (traceparent !== undefined) headers[HEADER.traceparent] = traceparent
  const guard = { subject: subjects.journal(run.key), sequence: run.guard }
  return { subject: subjects.return(run.key, context.agent), headers, data, guard }
}

function bodyOf(
  context: ReturnContext,
  run: Run,
  { result, type }: { result: RunResult; type: 'json' | 'msgpack' },
): Uint8Array | Promise<Uint8Array> {
  if ('error' in result) return errorBody(result, type)
  const { output, parts } = splitOutput(result.output)
  const body = returnBody(output, run.key, type)
  if (parts.length > 0) {
    const stopped = () => run.stop === 'ended' || run.stop === 'lost'
    const deadline = { until: run.deadline, whatever_the_connection: true, stopped } as const
    return uploadAllParts(context.deps, context.agent, { parts, deadline }).then((uploaded) => encode({ ...body, parts: uploaded }, type))
  }
  return encode(body, type)
}

/**
 * Builds the body of a return. A JSON body has the complete output. Other encodings leave out fields that the reader already knows (decision 39).
 */
function returnBody(output: Record<string, unknown>, key: PassKey, type: 'json' | 'msgpack'): ReturnEnvelope {
  const brief = type === 'msgpack' ? packOutput(output, key) : undefined
  return brief ? { v: WIRE_VERSION, brief } : { v: WIRE_VERSION, output }
}

/** Encodes an error with the raw output: unchanged if every reader can decode it, else as text. */
function errorBody(result: { error: PassError; raw_output?: unknown }, type: 'json' | 'msgpack'): Uint8Array {
  const body = { v: WIRE_VERSION, error: result.error }
  if (result.raw_output === undefined) return encode(body, type)
  const raw_output = toSendableValue(result.raw_output)
  const whole = encode({ ...body, raw_output }, type)
  if (whole.byteLength <= MAX_RAW_TEXT * 4) return whole
  return encode({ ...body, raw_output: cut(typeof raw_output === 'string' ? raw_output : JSON.stringify(raw_output), MAX_RAW_TEXT) }, type)
}

/** Stores an output that came after the pass had ended or a newer attempt had begun. It is stored as an event, never as a return. */
export async function publishLate(context: ReturnContext, run: Run, output: WorkOutput): Promise<void> {
  const { bus } = context.deps
  const event = (body: unknown): PublishMessage => ({
    subject: bus.subjects.event(run.key, 'late', context.agent),
    headers: eventHeaders(passTrace(run)),
    data: encode({ v: WIRE_VERSION, attempt: run.attempt, output: body }),
  })
  const whole = event(output)
  const outcome = (whole.data?.byteLength ?? 0) > MAX_LATE_BYTES ? undefined : await bus.publish(whole)
  if (outcome && (outcome.kind !== 'refused' || outcome.reason !== 'too_large')) return
  const { artifacts, output: _text, ...rest } = output
  await bus.publish(event({ ...rest, artifacts: [], artifacts_left_out: artifacts.length }))
}
