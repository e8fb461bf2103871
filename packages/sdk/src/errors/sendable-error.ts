import { inspect } from 'node:util'
import { cut, passError } from '@passover/core'
import { jsonFault, type PassError } from '@passover/schemas'

/** Returns E014 for an output that cannot be sent. Not recoverable, because a repetition would produce the same output (decision 122). */
export function tooLargeError(message: string, mend: string): PassError {
  return passError('E014', message, { recoverable: false, mend })
}

/** Returns an error whose details can be sent. Details that JSON cannot represent are left out and listed in `left_out`. */
export function toSendableError(error: PassError): PassError {
  const { details } = error
  if (details === undefined || jsonFault(details) === undefined) return error
  const sound: Record<string, unknown> = {}
  const left: string[] = []
  for (const name of Object.keys(details)) {
    // Check each property separately: its getter may throw, or its name may be invalid.
    const fault = jsonFault(Object.defineProperty({}, name, { get: () => details[name], enumerable: true }))
    if (fault) left.push(`${fault.path.map(String).join('.')} ${fault.why}`)
    else sound[name] = details[name]
  }
  return { ...error, details: { ...sound, left_out: cut(left.join('; '), MAX_LEFT_OUT_TEXT) } }
}

const MAX_LEFT_OUT_TEXT = 1_000
const MAX_RAW_TEXT = 65_536
const SHOWN = { depth: 6, maxStringLength: MAX_RAW_TEXT, customInspect: false } as const

/** Returns the raw result of a handler unchanged if it can be sent, else as text. */
export function toSendableValue(raw: unknown): unknown {
  if (jsonFault(raw) === undefined) return raw
  try {
    return cut(inspect(raw, SHOWN), MAX_RAW_TEXT)
  } catch {
    return 'it cannot be shown'
  }
}
