import { type Delivery, decode, decodeTrusted, type Heard } from '@passover/bus'
import { PassOverError } from '@passover/core'
import { HEADER, type PassKey, type WorkEnvelope } from '@passover/schemas'

/** The body of a work step; undefined when it is not one of this pass. Only `passover` writes it, so its form is not checked. */
export function envelopeOf(delivery: Delivery, key: PassKey): WorkEnvelope | undefined {
  const envelope = decodeTrusted(delivery.data, delivery.headers.get(HEADER.contentType)) as Partial<WorkEnvelope> | undefined | null
  if (!envelope) return undefined
  const { control, parts } = envelope
  return control?.id === key.id && control.subagent_id === key.subagent && Array.isArray(parts) ? (envelope as WorkEnvelope) : undefined
}

/** Why a handler whose pass was ended has to stop. */
export function endingReason(heard: Heard): Error {
  const decoded = decode(heard.stored.data, heard.stored.headers.get(HEADER.contentType))
  const error = decoded.ok ? (decoded.value as { error?: { code?: string; message?: string } }).error : undefined
  if (error?.code === 'E010') return new PassOverError('E010', error.message ?? 'the deadline passed')
  return new PassOverError('E043', error?.message ?? 'the pass has ended')
}
