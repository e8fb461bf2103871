import { type Bus, decode, joinOutput, loadParts } from '@passover/bus'
import { acceptReturn, isBody, outputIn } from '@passover/core'
import { type AnsweredPass, type Part, type PassError, type PassKey, passError, type WorkOutput } from '@passover/schemas'
import { outputBytes } from '@passover/sdk/internal'

/** Result of a pass: the output of a worker, an error, or bytes that are neither. */
export type PassResult = { output: Partial<WorkOutput> } | { error: PassError; raw_output?: unknown } | { unreadable: string }

/**
 * Reads the stored return of a pass and fetches its large artifacts. Returns `undefined` if there is none yet.
 *
 * @param admits - Returns true if an output of this size in bytes may be loaded. Default: every output.
 */
export async function readResult(
  bus: Bus,
  pass: AnsweredPass,
  admits: (bytes: number) => boolean = () => true,
): Promise<PassResult | undefined> {
  const stored = pass.return
  if (!stored) return pass.return_left_out ? { unreadable: 'it is too large for an answer; it is stored in the stream' } : undefined
  const decoded = decode(stored.data, stored.content_type)
  if (!decoded.ok) return { unreadable: decoded.error.message }
  const body = decoded.value
  if (!isBody(body)) return { unreadable: 'it is not an object' }
  if ('error' in body) return errorOf(body)
  const output = outputIn(body, pass.key)
  const parts = Array.isArray(body.parts) ? (body.parts as Part[]) : []
  const bytes = outputBytes(stored.data, parts)
  if (!admits(bytes)) return { unreadable: `its output has ${bytes} bytes, which is too large to load here; to see it: passover show` }
  return join(bus, { output, parts, key: pass.key })
}

function errorOf(body: Record<string, unknown>): PassResult {
  const parsed = passError.safeParse(body.error)
  if (!parsed.success) return { unreadable: 'its error is malformed' }
  return { error: parsed.data, ...(body.raw_output === undefined ? {} : { raw_output: body.raw_output }) }
}

/** Joins an output with its large parts. Returns an error if the originator would not accept the output. */
async function join(
  bus: Bus,
  { output, parts, key }: { output: Record<string, unknown>; parts: Part[]; key: PassKey },
): Promise<PassResult> {
  try {
    const joined = joinOutput(output, await loadParts(bus.parts, parts))
    if (!joined.ok) return { unreadable: joined.error }
    const accepted = acceptReturn(joined.value, key)
    return accepted.ok ? { output: accepted.output } : { error: accepted.error }
  } catch (error) {
    return { unreadable: error instanceof Error ? error.message : String(error) }
  }
}
