import { type Delivery, decode, decodeTrusted, type Heard } from '@passover/bus'
import { type FramedStep, openControl, PassOverError } from '@passover/core'
import { HEADER, type Part, type PassKey, parseKey, type Slot, type WorkControl, type WorkEnvelope } from '@passover/schemas'

/** What a work step brings its worker. */
export interface Work {
  control: WorkControl
  parts: Part[]
}

/** The body of a work step; undefined when it is not one of this pass. Only `passover` writes it, so its form is not checked. */
export function workOf(delivery: Delivery, key: PassKey, slot: Slot): Work | undefined {
  const envelope = decodeTrusted(delivery.data, delivery.headers.get(HEADER.contentType)) as Partial<WorkEnvelope> | undefined | null
  if (!envelope) return undefined
  const { control: frame, parts } = envelope
  const control = frame?.policy && openControl(frame, framedStep(delivery, key, slot))
  return control?.id === key.id && control.subagent_id === key.subagent && Array.isArray(parts) ? { control, parts } : undefined
}

function framedStep({ headers }: Delivery, key: PassKey, slot: Slot): FramedStep {
  const parent = headers.get(HEADER.parent)
  const proof = headers.get(HEADER.proof)
  return {
    key,
    by: slot,
    digest: headers.get(HEADER.digest),
    request: Number(headers.get(HEADER.request)),
    requested_at: Number(headers.get(HEADER.requestedAt)),
    timeout_ms: Number(headers.get(HEADER.timeout)),
    parent: parent === undefined ? undefined : parseKey(parent),
    proof: proof === undefined ? undefined : Number(proof),
    reply: headers.get(HEADER.reply) === 'json' ? 'json' : undefined,
  }
}

/** Why a handler whose pass was ended has to stop. */
export function endingReason(heard: Heard): Error {
  const decoded = decode(heard.stored.data, heard.stored.headers.get(HEADER.contentType))
  const error = decoded.ok ? (decoded.value as { error?: { code?: string; message?: string } }).error : undefined
  if (error?.code === 'E010') return new PassOverError('E010', error.message ?? 'the deadline passed')
  return new PassOverError('E043', error?.message ?? 'the pass has ended')
}
