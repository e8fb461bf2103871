import { bodyType, decode, distrust, type MessageHeaders, splitContext } from '@passover/bus'
import { isBody, oneLine, requestDigest } from '@passover/core'
import {
  HEADER,
  isPassId,
  issueTexts,
  NOBODY,
  type Part,
  type PassError,
  passOverRequest,
  prefix,
  type RequestControl,
  requestEnvelope,
  sha256,
  soundTraceparent,
  WIRE_VERSION,
} from '@passover/schemas'
import type { z } from 'zod'

/** Originator and subagent from the subject. NATS permissions enforce the subject, so these names are authoritative. */
export interface Parties {
  originator: string
  subagent: string
}

/** The fields of a stored request that parsing needs. */
export interface RawRequest {
  headers: MessageHeaders
  data: Uint8Array
}

export interface ParsedRequest {
  request: RequestControl
  parts: Part[]
  digest: string
  session_id: string
  unnamed_session?: true
  reply_type: 'msgpack' | 'json'
  traceparent?: string
}

/** Result of parsing. `id` is the requested pass id. It is present if the header has an id and the body has no other id. */
export type ParseResult = { ok: true; value: ParsedRequest } | { ok: false; error: PassError; reply_type: 'msgpack' | 'json'; id?: string }

const MAX_ISSUES = 5

/**
 * Decodes and validates a stored request: its schema, that subject, headers and body agree, and that inlined parts match their hashes.
 * Never throws: every defect is returned as E005 (docs/architecture/protocol.md#idempotency).
 */
export function parseRequest(raw: RawRequest, parties: Parties): ParseResult {
  const reply_type = bodyType(raw.data, raw.headers.get(HEADER.contentType))
  let id: string | undefined
  const bad = (message: string, details?: Record<string, unknown>): ParseResult => ({
    ok: false,
    reply_type,
    error: { code: 'E005', message, ...(details && { details }) },
    ...(id !== undefined && { id }),
  })
  const untrusted = distrust('request', raw)
  if (untrusted !== undefined) return bad(`the request is not trusted: ${untrusted}`)
  if (parties.originator === NOBODY) return bad('the subject does not name an originator and a subagent')
  try {
    const decoded = decode(raw.data, reply_type)
    id = claimedId(raw.headers, decoded.ok ? decoded.value : undefined, parties)
    if (!decoded.ok) return bad(`the request cannot be decoded as ${reply_type}: ${clip(decoded.error.message)}`)
    const version = versionFault(decoded.value)
    if (version) return bad(version.message, version.details)
    const form = readForm(decoded.value)
    if ('issues' in form) return bad(`the request is malformed: ${form.issues.join('; ')}`, { issues: form.issues })
    const differs = contradictionIn(form.request, raw.headers, parties)
    if (differs) return bad(differs.message, { field: differs.field })
    const broken = sameName(form.parts) ?? (form.cut_here ? undefined : brokenPart(form.parts, parties.originator))
    if (broken) return bad(broken)
    const digest = requestDigest(form.request, form.parts)
    const claimed = raw.headers.get(HEADER.digest)
    if (claimed !== undefined && claimed !== digest) {
      return bad('the digest in the header does not match the request', { field: HEADER.digest })
    }
    const traceparent = soundTraceparent(raw.headers.get(HEADER.traceparent))
    const { request, parts, session_id } = form
    const value: ParsedRequest = { request, parts, session_id, digest, reply_type }
    if (form.unnamed_session) value.unnamed_session = true
    if (traceparent !== undefined) value.traceparent = traceparent
    return { ok: true, value }
  } catch (error) {
    return bad(`the request cannot be read: ${clip(error instanceof Error ? error.message : String(error))}`)
  }
}

/**
 * Returns the id in the header of a request that cannot be read. The originator in the subject is its publisher, so the refusal cannot end a pass of
 * another agent. If the body can be decoded and names another pass, the header is ignored.
 */
function claimedId(headers: MessageHeaders, body: unknown, parties: Parties): string | undefined {
  const id = headers.get(HEADER.id)
  if (id === undefined || !isPassId(id)) return undefined
  const named = isBody(body) ? (isBody(body.request) ? body.request : body) : {}
  const says = { id, originating_agent_id: parties.originator, subagent_id: parties.subagent }
  const contradicts = Object.entries(says).some(([field, value]) => field in named && named[field] !== value)
  return contradicts ? undefined : id
}

/** Refuses another version of the wire format with a hint what to upgrade. Runs before schema validation, which would report missing fields. */
function versionFault(body: unknown): { message: string; details: Record<string, unknown> } | undefined {
  if (!isBody(body) || !('request' in body)) return undefined
  const { v } = body
  if (typeof v !== 'number' || !Number.isSafeInteger(v) || v === WIRE_VERSION) return undefined
  const side = v > WIRE_VERSION ? 'upgrade the dispatcher' : 'upgrade the agent that sent the request'
  const message = `the request has wire version ${v}, this dispatcher reads version ${WIRE_VERSION}: ${side}, then send it with a new id`
  return { message, details: { reason: 'wire_version', version: v, reads: WIRE_VERSION } }
}

/** A decoded request. `cut_here` is true if this process split a complete context into parts and computed their hashes. */
type RequestForm =
  | { request: RequestControl; parts: Part[]; session_id: string; unnamed_session?: true | undefined; cut_here: boolean }
  | { issues: string[] }

function readForm(body: unknown): RequestForm {
  if (isBody(body) && 'v' in body && 'request' in body) return readEnvelope(body)
  const parsed = passOverRequest.safeParse(body)
  if (!parsed.success) return { issues: issuesOf(parsed.error) }
  const { work_context, ...request } = parsed.data
  return { request, parts: splitContext(work_context).parts, session_id: work_context.session_id ?? '', cut_here: true }
}

function readEnvelope(body: unknown): RequestForm {
  const parsed = requestEnvelope.safeParse(body)
  if (!parsed.success) return { issues: issuesOf(parsed.error) }
  const { request, parts, session_id, unnamed_session } = parsed.data
  return { request, parts, session_id: session_id ?? sessionOf(parts), unnamed_session, cut_here: false }
}

function contradictionIn(
  request: RequestControl,
  headers: RawRequest['headers'],
  parties: Parties,
): { field: string; message: string } | undefined {
  if (request.originating_agent_id !== parties.originator) {
    const field = 'originating_agent_id'
    return { field, message: `the originator is "${request.originating_agent_id}" in the body, but "${parties.originator}" in the subject` }
  }
  if (request.subagent_id !== parties.subagent) {
    return {
      field: 'subagent_id',
      message: `the subagent is "${request.subagent_id}" in the body, but "${parties.subagent}" in the subject`,
    }
  }
  const id = headers.get(HEADER.id)
  if (id !== undefined && id !== request.id)
    return { field: HEADER.id, message: `the id is "${clip(id)}" in the header, but "${request.id}" in the body` }
  return undefined
}

function sameName(parts: Part[]): string | undefined {
  if (parts.length < 2) return undefined
  const names = new Set<string>()
  for (const { name } of parts) {
    if (names.has(name)) return `two parts have the name "${clip(name)}"`
    names.add(name)
  }
  return undefined
}

function brokenPart(parts: Part[], originator: string): string | undefined {
  for (const { name, data, owner, size, hash } of parts) {
    if (!data) {
      if (owner === undefined) return `part "${clip(name)}" has neither bytes nor an owner`
      // Parts are kept only for the passes of their owner (docs/architecture/isolation.md#large-parts).
      if (owner !== originator) return `part "${clip(name)}" is in the bucket of "${clip(owner)}": store its bytes in your own bucket`
      continue
    }
    if (data.byteLength !== size) return `part "${clip(name)}" has ${data.byteLength} bytes, not ${size}`
    if (sha256(data) !== hash) return `the bytes of part "${clip(name)}" do not match its hash`
  }
  return undefined
}

/** Returns the session named in the small `context` part of an envelope that has no session field. */
function sessionOf(parts: Part[]): string {
  const context = parts.find((part) => part.name === 'context')?.data
  if (!context) return ''
  const value: unknown = JSON.parse(new TextDecoder().decode(context))
  return isBody(value) && typeof value.session_id === 'string' ? prefix(value.session_id, 256) : ''
}

function issuesOf(error: z.ZodError): string[] {
  const issues = issueTexts(error.issues, MAX_ISSUES, 'body').map(clip)
  const more = error.issues.length - issues.length
  return more > 0 ? [...issues, `and ${more} more`] : issues
}

/** Shortens text from clients before it goes into messages and logs. */
function clip(text: string): string {
  return oneLine(text, 200)
}
