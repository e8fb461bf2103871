import { encode, type Outgoing } from '@passover/bus'
import { SYSTEM_DEFAULTS } from '@passover/core'
import { HEADER, type Part, type RequestEnvelope, WIRE_VERSION } from '@passover/schemas'
import { publishPlain } from '../messages/publish.js'
import { fits, stowParts } from '../messages/upload-parts.js'
import type { Origin } from './originator.js'
import type { Draft } from './request-draft.js'

/** Publishes a request; what is too large to travel in it is stored first. Returns the sequence of the request. */
export function sendDraft(origin: Origin, drafted: Draft): Promise<number> {
  const { deps } = origin
  if (deps.faults || !fits(drafted.parts)) return sendSlowly(origin, drafted)
  try {
    return publishPlain(deps, requestMessage(origin, drafted, drafted.parts), drafted.key)
  } catch (error) {
    return Promise.reject(error)
  }
}

async function sendSlowly(origin: Origin, drafted: Draft): Promise<number> {
  const { deps } = origin
  const { key } = drafted
  const timeout_ms = drafted.request.override?.timeout_ms ?? drafted.request.timeout_ms ?? SYSTEM_DEFAULTS.timeout_ms
  const patience = { until: deps.clock.now() + timeout_ms }
  const parts = fits(drafted.parts) ? drafted.parts : await stowParts(deps, origin.name, { parts: drafted.parts, patience })
  if (deps.faults) await deps.faults.at('pass-over:before-publish', key)
  const sequence = await publishPlain(deps, requestMessage(origin, drafted, parts), key)
  if (deps.faults) await deps.faults.at('pass-over:after-publish', key)
  return sequence
}

function requestMessage(origin: Origin, drafted: Draft, parts: Part[]): Outgoing {
  const { request, session_id } = drafted
  const body: RequestEnvelope = { v: WIRE_VERSION, request, parts, session_id }
  if (drafted.unnamed_session) body.unnamed_session = true
  const headers: Record<string, string> = { [HEADER.id]: drafted.key.id }
  if (request.timeout_ms !== undefined) headers[HEADER.timeout] = String(request.timeout_ms)
  if (drafted.traceparent !== undefined) headers[HEADER.traceparent] = drafted.traceparent
  return { subject: origin.deps.bus.subjects.request(drafted.key.subagent, origin.name), headers, data: encode(body) }
}
