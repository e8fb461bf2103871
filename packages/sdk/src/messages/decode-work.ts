import { type Delivery, decode, decodeTrusted, type MessageHeaders, type ReceivedReturn } from '@passover/bus'
import { acceptError, type FramedStep, oneLine, openControl, PassOverError } from '@passover/core'
import {
  HEADER,
  type Part,
  type PassError,
  type PassKey,
  type Priority,
  parseKey,
  WIRE_VERSION,
  type WorkControl,
  type WorkEnvelope,
} from '@passover/schemas'

/** Content of a work step. */
export interface WorkContent {
  control: WorkControl
  parts: Part[]
}

/**
 * Decodes the body of a work step. Returns the reason as a string if this worker cannot read it. Only the system writes it, so its structure is not
 * validated.
 */
export function decodeWork(delivery: Delivery, key: PassKey, priority: Priority): WorkContent | string {
  const { headers } = delivery
  const envelope = decodeTrusted(delivery.data, headers.get(HEADER.contentType)) as Partial<WorkEnvelope> | undefined | null
  if (!envelope) return 'it cannot be decoded'
  const { control: frame, parts } = envelope
  // Fields of a later version may have another meaning. Earlier versions stay readable.
  const version: unknown = envelope.v
  if (Number(version) > WIRE_VERSION)
    return `it has version ${oneLine(String(version))}, but this worker reads only versions up to ${WIRE_VERSION}`
  const control = frame?.policy && openControl(frame, framedStep(headers, key, priority))
  if (!control) return 'this worker does not know the policy that it is based on, which is from a newer version'
  if (control.id !== key.id || control.subagent_id !== key.subagent || !Array.isArray(parts)) return 'it does not belong to its pass'
  return { control, parts }
}

function framedStep(headers: MessageHeaders, key: PassKey, priority: Priority): FramedStep {
  const parent = headers.get(HEADER.parent)
  const proof = headers.get(HEADER.proof)
  return {
    key,
    by: priority,
    digest: headers.get(HEADER.digest),
    request: Number(headers.get(HEADER.request)),
    requested_at: Number(headers.get(HEADER.requestedAt)),
    timeout_ms: Number(headers.get(HEADER.timeout)),
    parent: parent === undefined ? undefined : parseKey(parent),
    proof: proof === undefined ? undefined : Number(proof),
    reply: headers.get(HEADER.reply) === 'json' ? 'json' : undefined,
  }
}

/** Returns the error that a pass was ended with. */
export function terminationError({ by, stored }: ReceivedReturn): PassError {
  const decoded = decode(stored.data, stored.headers.get(HEADER.contentType))
  return acceptError(decoded.ok ? (decoded.value as { error?: unknown } | undefined)?.error : undefined, by).error
}

/** Returns the abort reason for a handler whose pass was ended. */
export function terminationReason(error: PassError): Error {
  if (error.code === 'E010') return new PassOverError('E010', error.message)
  return new PassOverError('E043', error.message)
}
