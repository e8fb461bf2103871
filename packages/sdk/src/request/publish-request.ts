import { encode, type PublishMessage } from '@passover/bus'
import { SYSTEM_DEFAULTS } from '@passover/core'
import { HEADER, type Part, type RequestEnvelope, WIRE_VERSION } from '@passover/schemas'
import { publishUnguarded } from '../messages/publish.js'
import { fitInMessage, uploadLargeParts } from '../messages/upload-parts.js'
import type { Originator } from './originator.js'
import type { PreparedRequest } from './prepare-request.js'

/** Publishes a request. Stores parts that are too large for the message first. Returns the stream sequence of the request. */
export function publishRequest(origin: Originator, request: PreparedRequest): Promise<number> {
  const { deps } = origin
  if (deps.faults || !fitInMessage(request.parts)) return uploadAndPublish(origin, request)
  try {
    return publishUnguarded(deps, requestMessage(origin, request, request.parts), request.key)
  } catch (error) {
    return Promise.reject(error)
  }
}

async function uploadAndPublish(origin: Originator, request: PreparedRequest): Promise<number> {
  const { deps } = origin
  const { key } = request
  const timeout_ms = request.control.override?.timeout_ms ?? request.control.timeout_ms ?? SYSTEM_DEFAULTS.timeout_ms
  const deadline = { until: deps.clock.now() + timeout_ms }
  const parts = fitInMessage(request.parts) ? request.parts : await uploadLargeParts(deps, origin.name, { parts: request.parts, deadline })
  if (deps.faults) await deps.faults.at('pass-over:before-publish', key)
  const sequence = await publishUnguarded(deps, requestMessage(origin, request, parts), key)
  if (deps.faults) await deps.faults.at('pass-over:after-publish', key)
  return sequence
}

function requestMessage(origin: Originator, request: PreparedRequest, parts: Part[]): PublishMessage {
  const { control, session_id } = request
  const body: RequestEnvelope = { v: WIRE_VERSION, request: control, parts, session_id }
  if (request.unnamed_session) body.unnamed_session = true
  const headers: Record<string, string> = { [HEADER.id]: request.key.id }
  if (control.timeout_ms !== undefined) headers[HEADER.timeout] = String(control.timeout_ms)
  if (request.traceparent !== undefined) headers[HEADER.traceparent] = request.traceparent
  return { subject: origin.deps.bus.subjects.request(request.key.subagent, origin.name), headers, data: encode(body) }
}
