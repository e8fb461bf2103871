import { encode, type PublishMessage } from '@passover/bus'
import { SYSTEM_DEFAULTS } from '@passover/core'
import { HEADER, type Part, type RequestEnvelope, WIRE_VERSION } from '@passover/schemas'
import { publishUnguarded } from '../messages/publish.js'
import { fitInMessage, uploadLargeParts } from '../messages/upload-parts.js'
import type { Originator } from './originator.js'
import type { PreparedRequest } from './request-draft.js'

/** Publishes a request. Stores parts that are too large for the message first. Returns the stream sequence of the request. */
export function publishRequest(origin: Originator, drafted: PreparedRequest): Promise<number> {
  const { deps } = origin
  if (deps.faults || !fitInMessage(drafted.parts)) return uploadAndPublish(origin, drafted)
  try {
    return publishUnguarded(deps, requestMessage(origin, drafted, drafted.parts), drafted.key)
  } catch (error) {
    return Promise.reject(error)
  }
}

async function uploadAndPublish(origin: Originator, drafted: PreparedRequest): Promise<number> {
  const { deps } = origin
  const { key } = drafted
  const timeout_ms = drafted.request.override?.timeout_ms ?? drafted.request.timeout_ms ?? SYSTEM_DEFAULTS.timeout_ms
  const patience = { until: deps.clock.now() + timeout_ms }
  const parts = fitInMessage(drafted.parts) ? drafted.parts : await uploadLargeParts(deps, origin.name, { parts: drafted.parts, patience })
  if (deps.faults) await deps.faults.at('pass-over:before-publish', key)
  const sequence = await publishUnguarded(deps, requestMessage(origin, drafted, parts), key)
  if (deps.faults) await deps.faults.at('pass-over:after-publish', key)
  return sequence
}

function requestMessage(origin: Originator, drafted: PreparedRequest, parts: Part[]): PublishMessage {
  const { request, session_id } = drafted
  const body: RequestEnvelope = { v: WIRE_VERSION, request, parts, session_id }
  if (drafted.unnamed_session) body.unnamed_session = true
  const headers: Record<string, string> = { [HEADER.id]: drafted.key.id }
  if (request.timeout_ms !== undefined) headers[HEADER.timeout] = String(request.timeout_ms)
  if (drafted.traceparent !== undefined) headers[HEADER.traceparent] = drafted.traceparent
  return { subject: origin.deps.bus.subjects.request(drafted.key.subagent, origin.name), headers, data: encode(body) }
}
