import { type Bus, bodyType, decode, encode, type PublishMessage } from '@passover/bus'
import { isBody } from '@passover/core'
import { type DeadLetterDetail, HEADER, type ParentProof, type Part, passOverRequest, requestEnvelope } from '@passover/schemas'
import { Failure } from '../errors.js'

/** A stored request, in its original encoding. */
export interface StoredRequest {
  form: 'msgpack' | 'json'
  /** Request envelope, or a plain PassOverRequest (as sent from a shell), whose body has the fields of the request itself. */
  body: Record<string, unknown>
  enveloped: boolean
  subagent: string
  parts: Part[]
  parent: ParentProof | undefined
  timeout_ms: number | undefined
}

/**
 * Reads the request of a dead letter. Throws Failure E005 if it is malformed, E031 if the dead letter is not a request, and E041 if the request is
 * gone.
 */
export function readStoredRequest({ letter, request }: DeadLetterDetail): StoredRequest {
  if (letter.what === 'notice') {
    throw new Failure(
      'E031',
      `the dead letter of ${letter.id} is a notification that could not be delivered; the pass itself is not affected`,
      { hint: `to see the pass: passover show ${letter.id}; to drop the notification: passover dlq drop ${letter.id}` },
    )
  }
  if (letter.code === 'E005') {
    throw new Failure('E005', `${letter.id} is not a request that can be sent again: ${letter.message}`, {
      hint: `to see its bytes: passover dlq show ${letter.id}; fix its sender, then drop it: passover dlq drop ${letter.id}`,
    })
  }
  if (!request) {
    throw new Failure('E041', `the request of ${letter.id} is no longer stored, or too large for an answer`, {
      hint: 'send a new request: passover request',
    })
  }
  const form = bodyType(request.data, request.content_type)
  const decoded = decode(request.data, form)
  const body = decoded.ok && isBody(decoded.value) ? decoded.value : {}
  const envelope = requestEnvelope.safeParse(body)
  const plain = envelope.success ? undefined : passOverRequest.safeParse(body)
  const control = envelope.data?.request ?? plain?.data
  if (!control) throw new Failure('E005', `the request of ${letter.id} is malformed`, { hint: `passover dlq show ${letter.id}` })
  const { parent, timeout_ms } = control
  const parts = envelope.data?.parts ?? []
  return { form, body, enveloped: envelope.success, subagent: letter.subagent, parts, parent, timeout_ms }
}

/** Builds the same request under another id, with a link to the original. */
export function buildResubmission(bus: Bus, request: StoredRequest, link: { id: string; retry_of: string }): PublishMessage {
  const { body, enveloped, form, timeout_ms, subagent } = request
  const resubmitted = enveloped ? { ...body, request: { ...(body.request as object), ...link } } : { ...body, ...link }
  return {
    subject: bus.subjects.request(subagent, bus.identity),
    headers: { [HEADER.id]: link.id, ...(timeout_ms === undefined ? {} : { [HEADER.timeout]: String(timeout_ms) }) },
    data: encode(resubmitted, form),
  }
}
