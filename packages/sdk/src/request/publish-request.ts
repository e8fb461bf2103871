import { encode, type PublishMessage } from '@passover/bus'
import { SYSTEM_DEFAULTS } from '@passover/core'
import { HEADER, type Part, type RequestEnvelope, WIRE_VERSION } from '@passover/schemas'
import { publishUnguarded } from '../messages/publish.js'
import { fitInMessage, uploadLargeParts } from '../messages/upload-parts.js'
import type { Originator } from './originator.js'
import type { PreparedRequest } from './prepare-request.js'

/** Publishes a request. Stores parts that are too large for the message first. Returns the stream sequence of the request. */
export function publishRequest(origin: Originator, prepared: PreparedRequest): Promise<number> {
  const { deps } = origin
  if (deps.faults || !fitInMessage(prepared.parts)) return uploadAndPublish(origin, prepared)
  try {
    return publishUnguarded(deps, requestMessage(origin, prepared, prepared.parts), prepared.key)
  } catch (error) {
    return Promise.reject(error)
  }
}

async function uploadAndPublish(origin: Originator, prepared: PreparedRequest): Promise<number> {
  const { deps } = origin
  const { key } = prepared
  const timeout_ms = prepared.request.override?.timeout_ms ?? prepared.request.timeout_ms ?? SYSTEM_DEFAULTS.timeout_ms
  const patience = { until: deps.clock.now() + timeout_ms }
  const parts = fitInMessage(prepared.parts)
    ? prepared.parts
    : await uploadLargeParts(deps, origin.name, { parts: prepared.parts, deadline: patience })
  if (deps.faults) await deps.faults.at('pass-over:before-publish', key)
  const sequence = await publishUnguarded(deps, requestMessage(origin, prepared, parts), key)
  if (deps.faults) await deps.faults.at('pass-over:after-publish', key)
  return sequence
}

function requestMessage(origin: Originator, prepared: PreparedRequest, parts: Part[]): PublishMessage {
  const { request, session_id } = prepared
  const body: RequestEnvelope = { v: WIRE_VERSION, request, parts, session_id }
  if (prepared.unnamed_session) body.unnamed_session = true
  const headers: Record<string, string> = { [HEADER.id]: prepared.key.id }
  if (request.timeout_ms !== undefined) headers[HEADER.timeout] = String(request.timeout_ms)
  if (prepared.traceparent !== undefined) headers[HEADER.traceparent] = prepared.traceparent
  return { subject: origin.deps.bus.subjects.request(prepared.key.subagent, origin.name), headers, data: encode(body) }
}
