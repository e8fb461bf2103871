import { type Bus, decode, encode, type PublishMessage, type StoredMessage } from '@passover/bus'
import { isBody } from '@passover/core'
import { HEADER, keyText, type Part, type PassKey, passOverRequest, requestEnvelope, sha256 } from '@passover/schemas'

/** A request prepared for another namespace, or the reason why it is skipped. */
export type Resubmission =
  | {
      ok: true
      of: PassKey
      id: string
      body: Record<string, unknown>
      form: 'json' | 'msgpack'
      parts: Part[]
      timeout_ms: number | undefined
    }
  | { ok: false; of: PassKey; why: string }

/**
 * Prepares a recorded request for another namespace, with a new id and `retry_of` as the link. Children are skipped: their parent exists only in the
 * original namespace, and the repeated parent requests its children itself. `run` makes the ids of each replay unique.
 */
export function prepareResubmit(of: PassKey, stored: StoredMessage | undefined, run: string): Resubmission {
  if (!stored) return { ok: false, of, why: 'its request is no longer stored' }
  const decoded = decode(stored.data, stored.headers.get(HEADER.contentType))
  const body = decoded.ok && isBody(decoded.value) ? decoded.value : {}
  const envelope = requestEnvelope.safeParse(body)
  const control = envelope.success ? envelope.data.request : passOverRequest.safeParse(body).data
  if (!control) return { ok: false, of, why: 'its request is malformed' }
  if (control.parent) return { ok: false, of, why: `it is a child of ${keyText(control.parent)}, which requests it itself` }
  const id = `replay-${sha256(`${run} ${keyText(of)}`).slice(0, 24)}`
  const link = { id, retry_of: of.id }
  const again = envelope.success ? { ...body, request: { ...(body.request as object), ...link } } : { ...body, ...link }
  const parts = envelope.data?.parts ?? []
  return { ok: true, of, id, body: again, form: decoded.ok ? decoded.type : 'msgpack', parts, timeout_ms: control.timeout_ms }
}

/** Copies large parts, which are stored in the live namespace, to the other one. Throws PartError. */
export async function copyParts(live: Bus, shadow: Bus, again: Extract<Resubmission, { ok: true }>): Promise<Record<string, unknown>> {
  if (again.parts.every(({ data }) => data !== undefined)) return again.body
  const whole = await Promise.all(
    again.parts.map(async (part) => ({ ...part, data: part.data ?? new Uint8Array(await live.parts.fetch(part)) })),
  )
  const parts = await shadow.parts.upload(shadow.identity, whole)
  return { ...again.body, parts }
}

/** Builds the request message for the other namespace, in the name of its originator. */
export function resubmitMessage(shadow: Bus, again: Extract<Resubmission, { ok: true }>, body: Record<string, unknown>): PublishMessage {
  const { of, id, form, timeout_ms } = again
  return {
    subject: shadow.subjects.request(of.subagent, of.originator),
    headers: { [HEADER.id]: id, ...(timeout_ms === undefined ? {} : { [HEADER.timeout]: String(timeout_ms) }) },
    data: encode(body, form),
  }
}
