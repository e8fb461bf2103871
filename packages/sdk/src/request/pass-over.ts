import { encode } from '@passover/bus'
import { cut, PassOverError } from '@passover/core'
import { makeId, type PassKey, type PassOverMarker, type PassStatus, WIRE_VERSION, type WorkOutput } from '@passover/schemas'
import type { PendingReturn } from '../delivery/pending-return.js'
import { describeThrown } from '../errors/describe-thrown.js'
import { readPassStatus } from '../journal/pass-status.js'
import { eventHeaders, publishUnguarded } from '../messages/publish.js'
import type { PassOverOptions } from './options.js'
import type { EnclosingPass, Originator } from './originator.js'
import { makeHandle, type PassHandle } from './pass-handle.js'
import { type PreparedRequest, passOverMarker, prepareRequest } from './prepare-request.js'
import { publishRequest } from './publish-request.js'
import { beginRequestSpan, endRequestSpan } from './tracing.js'

/** Requests a pass. Never throws: every error rejects the handle. */
export function passOver(origin: Originator, options: PassOverOptions, scope: EnclosingPass | undefined): PassHandle {
  const { deps } = origin
  const given = attempt(() => options?.id)
  const id = (given.ok ? given.value : undefined) ?? makeId(origin.instance, deps.clock.now(), deps.random)
  const drafted = attempt(() => prepareRequest(origin, options, { id, scope: scope?.agent.name === origin.name ? scope : undefined }))
  if (!drafted.ok) return failed(id, options, drafted.error)
  const key = drafted.value.key
  const about = { key, traces: origin.traces, given: options.traceparent, scope, retry_of: options.retry_of }
  const traced = deps.tracing || scope || options.traceparent ? beginRequestSpan(deps, about) : undefined
  drafted.value.traceparent = traced?.traceparent
  const wanted = drafted.value.request.return_required || origin.events?.listening === true
  // With a signal, the pass is followed to its end even if no caller awaits its return, so that the listener on the signal can be removed then.
  const followed = wanted || options.signal ? begin(origin, drafted.value, wanted ? undefined : 'only_follow') : undefined
  const waiting = wanted ? followed : undefined
  const stored = followed?.stored ?? publishRequest(origin, drafted.value).then(() => undefined)
  stored.catch(() => undefined)
  if (traced?.span) endRequestSpan(deps, traced.span, waiting?.result ?? stored.then(() => undefined))
  const abort = options.signal && watch(origin, key, options.signal)
  if (abort) followed?.result.then(abort, abort)
  const marker = passOverMarker(drafted.value, deps.clock.now())
  return handleFor(origin, slim(drafted.value), { stored, result: waiting?.result, marker })
}

/** Returns a handle for a pass that was requested before. Sends nothing. */
export function handleOf(origin: Originator, key: PassKey): PassHandle {
  return handleFor(origin, { key, digest: undefined }, { stored: Promise.resolve() })
}

/** The data of a pass that is kept while its return is awaited. The request is not kept: its context may be large, and the wait long. */
type Slim = Pick<PreparedRequest, 'key' | 'digest'> & Partial<Pick<PreparedRequest, 'traceparent'>>

function slim({ key, digest, traceparent }: Slim): Slim {
  return { key, digest, traceparent }
}

interface Asked {
  stored: Promise<void>
  /** Result of the pass, or `undefined` if no caller awaits it yet. */
  result?: Promise<WorkOutput> | undefined
  marker?: PassOverMarker
}

/**
 * Creates the handle. This is a separate function because all closures of a function share the variables that any of them uses, and the closures of a
 * handle must not keep the request in memory.
 */
function handleFor(origin: Originator, pass: Slim, { stored, result, marker }: Asked): PassHandle {
  const { key } = pass
  return makeHandle({
    id: key.id,
    subagent: key.subagent,
    marker,
    stored,
    wait: () => result ?? stored.then(() => begin(origin, pass, 'only_wait').result),
    status: () => readPassStatus(origin, key),
    cancel: (reason) => cancel(origin, key, reason),
  })
}

interface Waiting {
  stored: Promise<void>
  result: Promise<WorkOutput>
}

/** Starts to wait for the return. Sends the request first, except with `only_wait`. With `only_follow`, no caller receives the return. */
function begin(origin: Originator, prepared: PreparedRequest | Slim, how?: How): Waiting {
  const { awaited, result } = expect(origin, slim(prepared), how)
  const stored = start(origin, { drafted: prepared, awaited, only: how === 'only_wait' ? how : undefined })
  giveUpUnsent(origin, awaited, stored)
  return { stored, result }
}

type How = 'only_wait' | 'only_follow'

function expect(
  origin: Originator,
  { key, digest, traceparent }: Slim,
  how: How | undefined,
): { awaited: PendingReturn; result: Promise<WorkOutput> } {
  const quiet = how === 'only_follow' || undefined
  const expected = {
    key,
    digest,
    own_id: how !== 'only_wait' && digest === undefined,
    quiet,
    noticed: how === undefined && origin.events?.listening === true,
    traceparent: quiet ? undefined : traceparent,
  }
  let settle: PendingReturn['settle'] = () => undefined
  const result = new Promise<WorkOutput>((resolve, reject) => {
    settle = (outcome) => (outcome.ok ? resolve(outcome.output) : reject(outcome.error))
  })
  // A caller may attach to the result later: until then a rejection must not count as unhandled.
  result.catch(() => undefined)
  return { awaited: origin.returns.expect(expected, settle), result }
}

function giveUpUnsent({ returns }: Originator, awaited: PendingReturn, stored: Promise<void>): void {
  stored.catch((error: unknown) => {
    if (awaited.finished) return
    returns.forget(awaited)
    awaited.settle({ ok: false, error: asPassOverError(error) })
  })
}

function start(
  origin: Originator,
  of: { drafted: PreparedRequest | Slim; awaited: PendingReturn; only: 'only_wait' | undefined },
): Promise<void> {
  const { drafted } = of
  const plain = !of.only && drafted.digest === undefined && origin.returns.listening && 'request' in drafted
  return plain ? send(origin, drafted, of.awaited) : prepare(origin, of)
}

function send(origin: Originator, prepared: PreparedRequest, awaited: PendingReturn): Promise<void> {
  const { request } = prepared
  return publishRequest(origin, prepared).then((sequence) => {
    if (!awaited.finished) origin.returns.published(awaited, sequence, request.override?.timeout_ms ?? request.timeout_ms)
  })
}

async function prepare(
  origin: Originator,
  of: { drafted: PreparedRequest | Slim; awaited: PendingReturn; only: 'only_wait' | undefined },
): Promise<void> {
  const { drafted, awaited, only } = of
  if (only || drafted.digest !== undefined) {
    const found = await origin.returns.adopt(awaited, only ? undefined : 'send')
    if (only || found !== 'nothing') return
  } else if (!origin.returns.listening) await origin.returns.listen()
  if (!('request' in drafted)) return
  await send(origin, drafted, awaited)
}

/** Publishes a cancel event. Throws E040 and E013 as for a request. */
async function cancel(origin: Originator, key: PassKey, reason: string | undefined): Promise<void> {
  const { bus } = origin.deps
  const body = { v: WIRE_VERSION, ...(reason !== undefined && { reason: cut(reason, 4_096) }) }
  const headers = eventHeaders(origin.traces.of(key.id))
  await publishUnguarded(origin.deps, { subject: bus.subjects.event(key, 'cancel', origin.name), headers, data: encode(body) }, key)
}

/** Cancels the pass when the signal is aborted. Returns a function that removes the listener. */
function watch(origin: Originator, key: PassKey, signal: AbortSignal): () => void {
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

/** Converts any error that the bus or a codec throws while sending to a PassOverError. */
function asPassOverError(error: unknown): PassOverError {
  if (error instanceof PassOverError) return error
  return new PassOverError('E040', `the request could not be sent: ${describeThrown(error).message}`)
}
