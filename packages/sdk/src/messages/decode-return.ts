import { type Bus, decode, joinOutput, loadParts, PartError } from '@passover/bus'
import { acceptError, acceptReturn, isBody, outputIn, passError } from '@passover/core'
import { type ErrorCode, type Part, type PassError, type PassKey, SYSTEM, type WorkOutput } from '@passover/schemas'
import type { StoredReturn } from '../journal/poll.js'
import type { Deps } from '../runtime/dependencies.js'

/** A decoded return: an output or an error. */
export type DecodedReturn = { ok: true; output: WorkOutput } | { ok: false; error: PassError }

type Json = Record<string, unknown>

/** Milliseconds for which an unanswered read is retried: a little longer than a cluster may be without a leader. */
const LEADERLESS_TIMEOUT_MS = 30_000

/**
 * Decodes a stored return, fetches the parts that are stored separately, and validates it by the same rule as the worker and the audit service. An
 * invalid return becomes E021 or E013 with the raw output. A return of more than `output_bytes` becomes E021 without it. Returns no promise if no
 * part must be fetched.
 */
export function decodeReturn(
  { bus, output_bytes }: Pick<Deps, 'bus' | 'output_bytes'>,
  key: PassKey,
  storedReturn: StoredReturn,
): DecodedReturn | Promise<DecodedReturn> {
  const decoded = decode(storedReturn.data, storedReturn.content_type)
  if (!decoded.ok) return invalidReturn('E021', `the return cannot be decoded: ${decoded.error.message}`)
  const body = decoded.value
  if (!isBody(body)) return invalidReturn('E021', 'the return is not an object')
  if ('error' in body) return errorOf(body, storedReturn.by)
  if (storedReturn.by === SYSTEM) return invalidReturn('E021', 'the return of the dispatcher contains no error')
  const output = outputIn(body, key)
  const parts = Array.isArray(body.parts) ? (body.parts as Part[]) : []
  const bytes = outputBytes(storedReturn.data, parts)
  if (output_bytes !== undefined && bytes > output_bytes) return outputTooLarge(bytes, output_bytes)
  return parts.length === 0 ? accept(key, output) : acceptParts(bus, key, { output, parts, storedReturn })
}

async function acceptParts(
  bus: Bus,
  key: PassKey,
  { storedReturn, ...body }: { output: Json; parts: Part[]; storedReturn: StoredReturn },
): Promise<DecodedReturn> {
  try {
    const joined = joinOutput(body.output, await loadParts(bus.parts, body.parts))
    return joined.ok ? accept(key, joined.value) : invalidReturn('E021', joined.error, body.output)
  } catch (error) {
    // The bucket may have no leader at the moment. Then the return is decoded again later.
    if (error instanceof PartError && error.unanswered && bus.now() - storedReturn.time < LEADERLESS_TIMEOUT_MS) throw error
    if (error instanceof PartError) return invalidReturn('E021', `an artifact is lost: ${error.message}`, body.output)
    throw error
  }
}

/** Returns the size of a stored output in bytes: that of its message plus the stated sizes of its parts. */
export function outputBytes(data: Uint8Array, parts: readonly Part[]): number {
  return parts.reduce((sum, part) => sum + (Number.isFinite(part?.size) ? part.size : Number.POSITIVE_INFINITY), data.length)
}

/** Returns the error for an output above the limit. Not recoverable: a retry would repeat the work, and its output would not be smaller. */
function outputTooLarge(bytes: number, most: number): DecodedReturn {
  const details = { output_bytes: bytes, limit_bytes: most, recoverable: false }
  return { ok: false, error: passError('E021', `its output has ${bytes} bytes; the limit here is ${most} bytes`, details) }
}

function accept(key: PassKey, output: Json): DecodedReturn {
  const accepted = acceptReturn(output, key)
  return accepted.ok ? { ok: true, output: accepted.output } : rejectedOutput(accepted.error, output)
}

/** Returns the error with the rejected output in its details. */
export function rejectedOutput({ code, message, details }: PassError, output: object): DecodedReturn {
  return { ok: false, error: { code, message, details: { ...details, raw_output: output } } }
}

function errorOf(body: Json, by: string): DecodedReturn {
  const accepted = acceptError(body.error, by)
  const { error } = accepted
  // An error that a worker may not report is kept as raw output.
  const raw_output = accepted.ok ? body.raw_output : body
  if (raw_output === undefined) return { ok: false, error }
  return { ok: false, error: { code: error.code, message: error.message, details: { ...error.details, raw_output } } }
}

function invalidReturn(code: ErrorCode, message: string, raw_output?: unknown): DecodedReturn {
  return { ok: false, error: passError(code, message, raw_output === undefined ? undefined : { raw_output }) }
}
