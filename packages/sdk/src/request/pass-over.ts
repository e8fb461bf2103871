/**
 * Stage 1 of a pass, in the originator. In: the options of `passOver()`.
 * Out: a request in the stream (`publish-request.ts`), and a handle that resolves with the return (`returns/return-waiter.ts`).
 */

import { encode } from '@passover/bus'
import { cut, PassOverError } from '@passover/core'
import { makeId, type PassKey, type PassOverMarker, type PassStatus, WIRE_VERSION, type WorkOutput } from '@passover/schemas'
import type { PendingReturn } from '../delivery/pending-return.js'
import { describeThrown } from '../errors/describe-thrown.js'
import { readPassStatus } from '../journal/pass-status.js'
import { eventHeaders, publishUnguarded } from '../messages/publish.js'
import type { WaitOptions } from '../returns/return-waiter.js'
import type { PassOverOptions } from './options.js'
import type { EnclosingPass, Originator } from './originator.js'
import { makeHandle, type PassHandle } from './pass-handle.js'
import { type PreparedRequest, passOverMarker, prepareRequest } from './prepare-request.js'
import { publishRequest } from './publish-request.js'
import { beginRequestSpan, endRequestSpan } from './tracing.js'

/** The data of a requested pass that its handle keeps. The request is not kept: its context may be large, and the wait long. */
type RequestedPass = Pick<PreparedRequest, 'key' | 'digest'> & Partial<Pick<PreparedRequest, 'traceparent'>>

/** A request that is being sent. */
interface SentRequest {
  /** Settles when the stream has stored the request. */
  stored: Promise<void>
  /** Result of the pass, or `undefined` if no caller awaits it yet. */
  result?: Promise<WorkOutput> | undefined
  marker?: PassOverMarker
}

/** Requests a pass. Never throws: every error rejects the handle. */
export function passOver(origin: Originator, options: PassOverOptions, scope: EnclosingPass | undefined): PassHandle {
  const { deps } = origin
  const givenId = attempt(() => options?.id)
  const id = (givenId.ok ? givenId.value : undefined) ?? makeId(origin.instance, deps.clock.now(), deps.random)
  const prepared = attempt(() => prepareRequest(origin, options, { id, scope: scope?.agent.name === origin.name ? scope : undefined }))
  if (!prepared.ok) return rejectedHandle(id, options, prepared.error)
  const request = prepared.value
  const { key } = request
  const about = { key, traces: origin.traces, given: options.traceparent, scope, retry_of: options.retry_of }
  const trace = deps.tracing || scope || options.traceparent ? beginRequestSpan(deps, about) : undefined
  request.traceparent = trace?.traceparent
  const isAwaited = request.control.return_required || origin.events?.listening === true
  // With a signal, the pass is followed to its end even if no caller awaits its return, so that the listener on the signal can be removed then.
  const wait = isAwaited || options.signal ? publishAndWait(origin, request, isAwaited) : undefined
  const stored = wait?.stored ?? publishRequest(origin, request).then(() => undefined)
  stored.catch(() => undefined)
  const result = isAwaited ? wait?.result : undefined
  if (trace?.span) endRequestSpan(deps, trace.span, result ?? stored.then(() => undefined))
  const removeListener = options.signal && cancelOnAbort(origin, key, options.signal)
  if (removeListener) wait?.result.then(removeListener, removeListener)
  const marker = passOverMarker(request, deps.clock.now())
  return handleFor(origin, { key, digest: request.digest, traceparent: request.traceparent }, { stored, result, marker })
}

/** Returns a handle for a pass that was requested before. Sends nothing. */
export function handleOf(origin: Originator, key: PassKey): PassHandle {
  return handleFor(origin, { key, digest: undefined }, { stored: Promise.resolve() })
}

/**
 * Creates the handle. This is a separate function because all closures of a function share the variables that any of them uses, and the closures of a
 * handle must not keep the request in memory.
 */
function handleFor(origin: Originator, pass: RequestedPass, { stored, result, marker }: SentRequest): PassHandle {
  const { key } = pass
  return makeHandle({
    id: key.id,
    subagent: key.subagent,
    marker,
    stored,
    wait: () => result ?? stored.then(() => waitForRequested(origin, pass)),
    status: () => readPassStatus(origin, key),
    cancel: (reason) => cancel(origin, key, reason),
  })
}

/** Starts to wait for the return, then publishes the request, so that no return is missed. If `isAwaited` is false, no caller gets the return. */
function publishAndWait(
  origin: Originator,
  request: PreparedRequest,
  isAwaited: boolean,
): { stored: Promise<void>; result: Promise<WorkOutput> } {
  const { key, digest, traceparent } = request
  const own_id = digest === undefined
  const { pending, result } = isAwaited
    ? registerWait(origin, { key, digest, own_id, traceparent, emit_event: origin.events?.listening === true })
    : registerWait(origin, { key, digest, own_id, skip_ack: true })
  const stored =
    digest === undefined && origin.returns.listening ? publish(origin, request, pending) : listenAndPublish(origin, request, pending)
  endWaitOnFailure(origin, pending, stored)
  return { stored, result }
}

/** Waits for the return of a pass whose request was published before. */
function waitForRequested(origin: Originator, { key, digest, traceparent }: RequestedPass): Promise<WorkOutput> {
  const { pending, result } = registerWait(origin, { key, digest, own_id: false, traceparent })
  endWaitOnFailure(origin, pending, origin.returns.subscribeAndPoll(pending))
  return result
}

/** Registers the wait for a return, before anything is sent or read. */
function registerWait(origin: Originator, options: WaitOptions): { pending: PendingReturn; result: Promise<WorkOutput> } {
  let settle: PendingReturn['settle'] = () => undefined
  const result = new Promise<WorkOutput>((resolve, reject) => {
    settle = (outcome) => (outcome.ok ? resolve(outcome.output) : reject(outcome.error))
  })
  // A caller may attach to the result later: until then a rejection must not count as unhandled.
  result.catch(() => undefined)
  return { pending: origin.returns.register(options, settle), result }
}

/** Rejects the result if the request could not be sent or the pass could not be read. */
function endWaitOnFailure({ returns }: Originator, pending: PendingReturn, done: Promise<unknown>): void {
  done.catch((error: unknown) => {
    if (pending.finished) return
    returns.stopWaiting(pending)
    pending.settle({ ok: false, error: asPassOverError(error) })
  })
}

/**
 * Publishes the request when its return can be received. For a given id, publishes only if the journal has not begun, because it may be a repetition.
 */
async function listenAndPublish(origin: Originator, request: PreparedRequest, pending: PendingReturn): Promise<void> {
  if (request.digest === undefined) await origin.returns.listen()
  else if ((await origin.returns.subscribeAndPoll(pending, 'send')) !== 'nothing') return
  await publish(origin, request, pending)
}

function publish(origin: Originator, request: PreparedRequest, pending: PendingReturn): Promise<void> {
  const { override, timeout_ms } = request.control
  return publishRequest(origin, request).then((sequence) => {
    if (!pending.finished) origin.returns.onPublished(pending, sequence, override?.timeout_ms ?? timeout_ms)
  })
}

/** Publishes a cancel event. Throws E040 and E013 as for a request. */
async function cancel(origin: Originator, key: PassKey, reason: string | undefined): Promise<void> {
  const { bus } = origin.deps
  const body = { v: WIRE_VERSION, ...(reason !== undefined && { reason: cut(reason, 4_096) }) }
  const headers = eventHeaders(origin.traces.of(key.id))
  await publishUnguarded(origin.deps, { subject: bus.subjects.event(key, 'cancel', origin.name), headers, data: encode(body) }, key)
}

/** Cancels the pass when the signal is aborted. Returns a function that removes the listener. */
function cancelOnAbort(origin: Originator, key: PassKey, signal: AbortSignal): () => void {
  const onAbort = (): void => {
    const reason = signal.reason === undefined ? undefined : describeThrown(signal.reason).message
    cancel(origin, key, reason).catch(() => undefined)
  }
  signal.addEventListener('abort', onAbort, { once: true })
  return () => signal.removeEventListener('abort', onAbort)
}

/** Creates the handle of a request whose options are not valid. */
function rejectedHandle(id: string, options: PassOverOptions, error: unknown): PassHandle {
  const reject = <T>(): Promise<T> => {
    const rejected = Promise.reject<T>(asPassOverError(error))
    rejected.catch(() => undefined)
    return rejected
  }
  const subagent = attempt(() => options?.subagent)
  return makeHandle({
    id: typeof id === 'string' ? id : '',
    subagent: subagent.ok && typeof subagent.value === 'string' ? subagent.value : '',
    stored: reject(),
    wait: reject,
    status: () => reject<PassStatus>(),
    cancel: reject,
  })
}

function attempt<T>(work: () => T): { ok: true; value: T } | { ok: false; error: unknown } {
  try {
    return { ok: true, value: work() }
  } catch (error) {
    return { ok: false, error }
  }
}

/** Converts any error that the bus or a codec throws while sending to a PassOverError. */
function asPassOverError(error: unknown): PassOverError {
  if (error instanceof PassOverError) return error
  return new PassOverError('E040', `the request could not be sent: ${describeThrown(error).message}`)
}
