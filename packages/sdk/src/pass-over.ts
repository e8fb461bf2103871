import { encode } from '@passover/bus'
import { cut, PassOverError } from '@passover/core'
import { makeId, type PassKey, type PassStatus, WIRE_VERSION, type WorkOutput } from '@passover/schemas'
import type { Awaited, Settled } from './awaited.js'
import { type Draft, draft, markerOf } from './draft.js'
import { makeHandle, type PassHandle } from './handle.js'
import type { PassOverOptions } from './options.js'
import type { Origin } from './origin.js'
import { publishPlain } from './publish-request.js'
import { endRequest, traceRequest } from './request-trace.js'
import { eventHeaders } from './run-trace.js'
import type { Scope } from './scope.js'
import { sendDraft } from './send-draft.js'
import { statusOf } from './status.js'
import { describeThrown } from './thrown.js'

/** Asks for a pass. Never throws: what is wrong rejects the handle. */
export function passOver(origin: Origin, options: PassOverOptions, scope: Scope | undefined): PassHandle {
  const { deps } = origin
  const given = attempt(() => options?.id)
  const id = (given.ok ? given.value : undefined) ?? makeId(origin.instance, deps.clock.now(), deps.random)
  const drafted = attempt(() => draft(origin, options, { id, scope: scope?.agent.name === origin.name ? scope : undefined }))
  if (!drafted.ok) return failed(id, options, drafted.error)
  const key = drafted.value.key
  const about = { key, traces: origin.traces, given: options.traceparent, scope, retry_of: options.retry_of }
  const traced = deps.tracing || scope || options.traceparent ? traceRequest(deps, about) : undefined
  drafted.value.traceparent = traced?.traceparent
  const wanted = drafted.value.request.return_required || origin.notices?.listening === true
  // With a signal it is followed to its end, also where nobody wants its return: until then the signal is listened to, and no longer.
  const followed = wanted || options.signal ? begin(origin, drafted.value, wanted ? undefined : 'only_follow') : undefined
  const waiting = wanted ? followed : undefined
  const stored = followed?.stored ?? sendDraft(origin, drafted.value).then(() => undefined)
  stored.catch(() => undefined)
  if (traced?.span) endRequest(deps, traced.span, waiting?.result ?? stored.then(() => undefined))
  const abort = options.signal && watch(origin, key, options.signal)
  if (abort) followed?.result.then(abort, abort)
  return makeHandle({
    id,
    subagent: key.subagent,
    marker: markerOf(drafted.value, deps.clock.now()),
    stored,
    wait: () => waiting?.result ?? stored.then(() => begin(origin, drafted.value, 'only_wait').result),
    status: () => statusOf(origin, key),
    cancel: (reason) => cancel(origin, key, reason),
  })
}

/** Asks again for a pass that was asked for before: nothing is sent. */
export function handleOf(origin: Origin, key: PassKey): PassHandle {
  return makeHandle({
    id: key.id,
    subagent: key.subagent,
    stored: Promise.resolve(),
    wait: () => begin(origin, { key, digest: undefined }, 'only_wait').result,
    status: () => statusOf(origin, key),
    cancel: (reason) => cancel(origin, key, reason),
  })
}

interface Waiting {
  stored: Promise<void>
  result: Promise<WorkOutput>
}

/** Waits for the return, and unless it is only to wait sends the request first. What is only followed has nobody who takes its return. */
function begin(origin: Origin, drafted: Draft | Pick<Draft, 'key' | 'digest'>, how?: 'only_wait' | 'only_follow'): Waiting {
  const { returns } = origin
  const only = how === 'only_wait' ? how : undefined
  const quiet = how === 'only_follow' || undefined
  const own_id = !only && drafted.digest === undefined
  let awaited: Awaited | undefined
  const result = new Promise<WorkOutput>((resolve, reject) => {
    const settle = (outcome: Settled): void => (outcome.ok ? resolve(outcome.output) : reject(outcome.error))
    const traceparent = !quiet && 'traceparent' in drafted ? drafted.traceparent : undefined
    const noticed = how === undefined && origin.notices?.listening === true
    awaited = returns.expect({ key: drafted.key, digest: drafted.digest, own_id, quiet, noticed, traceparent }, settle)
  })
  // A caller may look at the result later: it must not be lost on nobody before.
  result.catch(() => undefined)
  const stored = awaited ? start(origin, { drafted, awaited, only }) : Promise.resolve()
  stored.catch((error: unknown) => {
    if (!awaited || awaited.over) return
    returns.forget(awaited)
    awaited.settle({ ok: false, error: asPassOverError(error) })
  })
  return { stored, result }
}

function start(
  origin: Origin,
  of: { drafted: Draft | Pick<Draft, 'key' | 'digest'>; awaited: Awaited; only: 'only_wait' | undefined },
): Promise<void> {
  const { drafted } = of
  const plain = !of.only && drafted.digest === undefined && origin.returns.listening && 'request' in drafted
  return plain ? send(origin, drafted, of.awaited) : prepare(origin, of)
}

function send(origin: Origin, drafted: Draft, awaited: Awaited): Promise<void> {
  const { request } = drafted
  return sendDraft(origin, drafted).then((sequence) => {
    if (!awaited.over) origin.returns.published(awaited, sequence, request.override?.timeout_ms ?? request.timeout_ms)
  })
}

async function prepare(
  origin: Origin,
  of: { drafted: Draft | Pick<Draft, 'key' | 'digest'>; awaited: Awaited; only: 'only_wait' | undefined },
): Promise<void> {
  const { drafted, awaited, only } = of
  if (only || drafted.digest !== undefined) {
    const found = await origin.returns.adopt(awaited, only ? undefined : 'send')
    if (only || found !== 'nothing') return
  } else if (!origin.returns.listening) await origin.returns.listen()
  if (!('request' in drafted)) return
  await send(origin, drafted, awaited)
}

/** Publishes a cancel. E040 and E013 as for a request. */
async function cancel(origin: Origin, key: PassKey, reason: string | undefined): Promise<void> {
  const { bus } = origin.deps
  const body = { v: WIRE_VERSION, ...(reason !== undefined && { reason: cut(reason, 4_096) }) }
  const headers = eventHeaders(origin.traces.of(key.id))
  await publishPlain(origin.deps, { subject: bus.subjects.event(key, 'cancel', origin.name), headers, data: encode(body) }, key)
}

/** Cancels when the signal is aborted; gives what ends the watch. */
function watch(origin: Origin, key: PassKey, signal: AbortSignal): () => void {
  const aborted = (): void => {
    const reason = signal.reason === undefined ? undefined : describeThrown(signal.reason).message
    cancel(origin, key, reason).catch(() => undefined)
  }
  signal.addEventListener('abort', aborted, { once: true })
  return () => signal.removeEventListener('abort', aborted)
}

function failed(id: string, options: PassOverOptions, error: unknown): PassHandle {
  const reject = <T>(): Promise<T> => {
    const rejected = Promise.reject<T>(asPassOverError(error))
    rejected.catch(() => undefined)
    return rejected
  }
  const said = attempt(() => options?.subagent)
  const subagent = said.ok && typeof said.value === 'string' ? said.value : ''
  return makeHandle({
    id: typeof id === 'string' ? id : '',
    subagent,
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

/** What the bus or a codec throws on the way out is told in our terms. */
function asPassOverError(error: unknown): PassOverError {
  if (error instanceof PassOverError) return error
  return new PassOverError('E040', `the request could not be sent: ${describeThrown(error).message}`)
}
