import { decode } from '@passover/bus'
import { openControl, outputIn, type PassHistory, type ReturnedBody, requestNamed, withPartPlaceholders } from '@passover/core'
import { type PassKey, type RequestControl, requestControl, SYSTEM, sha256, type WorkControl } from '@passover/schemas'
import type { NotedMessage, PassMemory, RequestNote } from '../pass/pass-memory.js'

type Json = Record<string, unknown>

const MAX_SESSION = 256
const SAYING: ReadonlySet<string> = new Set(['started', 'applied', 'settled', 'violation'])

/** Converts a remembered pass into the form that core's rules expect. Bodies are decoded only here. */
export function buildPassHistory(memory: PassMemory): PassHistory {
  const { noted } = memory
  const decisions = noted.flatMap((one) => (one.fact.type === 'decision' ? [{ ...one.fact, body: bodyOf(one) }] : []))
  const events = noted.flatMap((one) => (one.fact.type === 'event' ? [{ ...one.fact, body: eventBody(one) }] : []))
  const framed = memory.step('work') ?? memory.step('held')
  const returned = memory.step('return')
  const asked = framed || !memory.request ? {} : requestOf(memory.request)
  return {
    key: memory.key,
    requests: requestsOf(memory),
    steps: noted.flatMap(({ fact }) => (fact.type === 'step' ? [fact] : [])),
    decisions,
    violated: events.flatMap(({ kind, sender, body }) => (kind === 'violation' && sender === SYSTEM ? violatedBy(body) : [])),
    events,
    control: framed && controlOf(framed),
    returned: returned && returnedOf(returned),
    schema_faults: memory.schema_faults,
    schema_unchecked: memory.schema_unchecked,
    return_digest: returned && decisions.some(({ item }) => item === 'return' || item === 'apply') ? sha256(returned.body) : undefined,
    ...asked,
  }
}

/** Returns the request that the first step answers; before the first step, the remembered request. */
function requestsOf({ noted, request }: PassMemory): PassHistory['requests'] {
  for (const { fact } of noted) {
    const named = fact.type === 'step' ? requestNamed(fact) : undefined
    if (named) return [{ sequence: named.sequence, time: named.time ?? request?.time ?? fact.time }]
  }
  return request ? [{ sequence: request.sequence, time: request.time }] : []
}

/** Returns the body of an event, only for kinds whose content the record repeats. */
function eventBody(noted: NotedMessage): unknown {
  const { fact } = noted
  return fact.type === 'event' && SAYING.has(fact.kind) ? bodyOf(noted) : undefined
}

/** Returns the sequence that a violation event is about. */
function violatedBy(body: unknown): number[] {
  const sequence = isJson(body) ? body.sequence : undefined
  return typeof sequence === 'number' ? [sequence] : []
}

/** Returns what a refused request asked for. The body is an envelope, or a plain PassOverRequest if it was sent from a shell. */
function requestOf(note: RequestNote): Pick<PassHistory, 'request' | 'session_id' | 'context_bytes'> {
  const body = decodedJson(note.body, note.content_type)
  if (!body) return {}
  const { request, parts, session_id, work_context } = body
  const control = requestControl.safeParse(isJson(request) ? request : body)
  const session = shortText(session_id) ?? sessionIn(work_context) ?? sessionInParts(parts)
  return {
    request: control.success ? (control.data as RequestControl) : undefined,
    session_id: session,
    context_bytes: bytesOf(parts) ?? (note.body && isJson(work_context) ? note.body.length : undefined),
  }
}

function sessionInParts(parts: unknown): string | undefined {
  if (!Array.isArray(parts)) return undefined
  const context = parts.find((part) => isJson(part) && part.name === 'context') as Json | undefined
  return context?.data instanceof Uint8Array ? sessionIn(decodedJson(context.data, 'application/json')) : undefined
}

function sessionIn(context: unknown): string | undefined {
  return isJson(context) ? shortText(context.session_id) : undefined
}

function bytesOf(parts: unknown): number | undefined {
  if (!Array.isArray(parts)) return undefined
  const sizes = parts.map((part) => (isJson(part) && Number.isSafeInteger(part.size) ? Math.max(0, Number(part.size)) : 0))
  return Math.min(
    Number.MAX_SAFE_INTEGER,
    sizes.reduce((sum, size) => sum + size, 0),
  )
}

/**
 * Returns the return that counts. The originator reads artifacts that travel as separate parts, the audit does not: each is replaced by an empty one
 * of the same type, so that it counts as one artifact and the rest can be checked. Bytes that cannot be decoded count as an empty output.
 */
export function returnedOf(noted: NotedMessage): ReturnedBody {
  const body = bodyOf(noted)
  if (!body) return { v: 1, output: {} }
  if ('error' in body) return errorOf(body)
  return { v: 1, output: outputOf(body, noted.fact.key) }
}

/** Returns the output in the body of a return, with placeholders for parts that are not in the message. */
export function outputOf(body: Json, key: PassKey): Json {
  return withPartPlaceholders(outputIn(body, key))
}

/** Returns an error as its originator reads it: a body with an error has no output, whatever else it contains. */
function errorOf({ output: _, brief: __, ...rest }: Json): ReturnedBody {
  return rest as unknown as ReturnedBody
}

/** True if the message contains the whole return, without separate parts. */
export function isWhole(noted: NotedMessage): boolean {
  const parts = bodyOf(noted)?.parts
  return !Array.isArray(parts) || parts.length === 0
}

/** Returns the control data that the held or work step decided for the pass. */
export function controlOf(noted: NotedMessage): WorkControl | undefined {
  return noted.framed && noted.fact.type === 'step' ? openControl(noted.framed.frame, noted.fact) : undefined
}

/** Decodes the body of a remembered message. */
export function bodyOf({ body, content_type }: Pick<NotedMessage, 'body' | 'content_type'>): Json | undefined {
  return decodedJson(body, content_type)
}

function decodedJson(data: Uint8Array | undefined, content_type: string | undefined): Json | undefined {
  const decoded = data && decode(data, content_type)
  return decoded?.ok && isJson(decoded.value) ? decoded.value : undefined
}

function isJson(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Uint8Array)
}

/** Returns a text of a body that was not checked. Lone surrogates are replaced, as in all that is stored as UTF-8, so that record and index agree. */
function shortText(value: unknown): string | undefined {
  return typeof value === 'string' && value.length > 0 && value.length <= MAX_SESSION ? value.toWellFormed() : undefined
}
