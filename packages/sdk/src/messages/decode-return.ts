import { type Bus, decode, joinOutput, loadParts, PartError } from '@passover/bus'
import { acceptError, acceptReturn, isBody, outputIn, passError } from '@passover/core'
import { type ErrorCode, type Part, type PassError, type PassKey, SYSTEM, type WorkOutput } from '@passover/schemas'
import type { StoredReturn } from '../journal/poll.js'
import type { Deps } from '../runtime/dependencies.js'

/** What a stored return says. */
export type DecodedReturn = { ok: true; output: WorkOutput } | { ok: false; error: PassError }

type Json = Record<string, unknown>

/** As long as a cluster may be without a leader, and some more. */
const LEADERLESS_TIMEOUT_MS = 30_000

/**
 * Opens a stored return: decodes it, fetches what travels by reference, and checks it by the same rule as the worker and the audit.
 * An unacceptable one is E021 or E013 with the raw output kept, one of more than `output_bytes` E021 without it. Gives the result itself where
 * nothing must be fetched.
 */
export function decodeReturn(
  { bus, output_bytes }: Pick<Deps, 'bus' | 'output_bytes'>,
  key: PassKey,
  found: StoredReturn,
): DecodedReturn | Promise<DecodedReturn> {
  const decoded = decode(found.data, found.content_type)
  if (!decoded.ok) return invalidReturn('E021', `the return cannot be decoded: ${decoded.error.message}`)
  const body = decoded.value
  if (!isBody(body)) return invalidReturn('E021', 'the return is no record')
  if ('error' in body) return errorOf(body, found.by)
  if (found.by === SYSTEM) return invalidReturn('E021', 'the system returned no error')
  const output = outputIn(body, key)
  const parts = Array.isArray(body.parts) ? (body.parts as Part[]) : []
  const bytes = outputBytes(found.data, parts)
  if (output_bytes !== undefined && bytes > output_bytes) return outputTooLarge(bytes, output_bytes)
  return parts.length === 0 ? accept(key, output) : acceptParts(bus, key, { output, parts, found })
}

async function acceptParts(
  bus: Bus,
  key: PassKey,
  { found, ...body }: { output: Json; parts: Part[]; found: StoredReturn },
): Promise<DecodedReturn> {
  try {
    const joined = joinOutput(body.output, await loadParts(bus.parts, body.parts))
    return joined.ok ? accept(key, joined.value) : invalidReturn('E021', joined.error, body.output)
  } catch (error) {
    // Its bucket may have no leader at the moment: then the return is opened again.
    if (error instanceof PartError && error.unanswered && bus.now() - found.time < LEADERLESS_TIMEOUT_MS) throw error
    if (error instanceof PartError) return invalidReturn('E021', `an artifact is lost: ${error.message}`, body.output)
    throw error
  }
}

/** Bytes of a stored output: of its message, and as many as its parts claim to have. */
export function outputBytes(data: Uint8Array, parts: readonly Part[]): number {
  return parts.reduce((sum, part) => sum + (Number.isFinite(part?.size) ? part.size : Number.POSITIVE_INFINITY), data.length)
}

/** Not recoverable: a retry would repeat the work, and its output would not be smaller. */
function outputTooLarge(bytes: number, most: number): DecodedReturn {
  const details = { output_bytes: bytes, limit_bytes: most, recoverable: false }
  return { ok: false, error: passError('E021', `its output has ${bytes} bytes, and at most ${most} are loaded here`, details) }
}

function accept(key: PassKey, output: Json): DecodedReturn {
  const accepted = acceptReturn(output, key)
  return accepted.ok ? { ok: true, output: accepted.output } : rejectedOutput(accepted.error, output)
}

/** The output is kept with what it is refused for. */
export function rejectedOutput({ code, message, details }: PassError, output: object): DecodedReturn {
  return { ok: false, error: { code, message, details: { ...details, raw_output: output } } }
}

function errorOf(body: Json, by: string): DecodedReturn {
  const accepted = acceptError(body.error, by)
  const { error } = accepted
  // What a worker may not say is kept as it said it.
  const raw_output = accepted.ok ? body.raw_output : body
  if (raw_output === undefined) return { ok: false, error }
  return { ok: false, error: { code: error.code, message: error.message, details: { ...error.details, raw_output } } }
}

function invalidReturn(code: ErrorCode, message: string, raw_output?: unknown): DecodedReturn {
  return { ok: false, error: passError(code, message, raw_output === undefined ? undefined : { raw_output }) }
}
