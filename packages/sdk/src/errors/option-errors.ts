import { closestMatch, PassOverError } from '@passover/core'
import { firstIssue, oddField } from '@passover/schemas'
import type { z } from 'zod'
import { describeThrown } from './describe-thrown.js'

/**
 * Validates options before they are used.
 *
 * @throws PassOverError E005 that names the option: it is unknown, of the wrong kind, or cannot be read.
 */
export function checkOptions<S extends z.ZodObject>(schema: S, given: unknown, what = 'options'): z.output<S> {
  const read = readSafely(given, what, () => schema.safeParse(given))
  if (read.success) return read.data
  const { error } = read
  const unknown = error.issues.find((issue) => issue.code === 'unrecognized_keys' && issue.path.length === 0)
  if (unknown?.code === 'unrecognized_keys') {
    const [name = what] = unknown.keys
    throw unknownOption(name, Object.keys(schema.shape))
  }
  const { field, why } = firstIssue(error)
  throw invalidOption(field || what, why)
}

/** Runs code that reads a caller's value. If a getter or Proxy of the value throws, throws E005 that names the field. */
export function readSafely<T>(given: unknown, what: string, work: () => T): T {
  try {
    return work()
  } catch (error) {
    if (error instanceof PassOverError) throw error
    const { path, why } = oddField(given) ?? { path: [], why: `cannot be read: ${describeThrown(error).message}` }
    throw invalidOption(path.map(String).join('.') || what, why)
  }
}

/** Options whose new name differs in more than its spelling. */
const NEW_NAMES = new Map([
  ['most_wait_ms', 'maxWaitMs'],
  ['wait_s', 'waitSeconds'],
])

/** Returns the error for an unknown option. It contains the new name if the option was renamed, else the most similar option. */
export function unknownOption(name: string, known: readonly string[]): PassOverError {
  const meant = known.find((one) => one === NEW_NAMES.get(name) || lettersOf(one) === lettersOf(name)) ?? closestMatch(name, known)
  if (meant !== undefined && isOldSpelling(name, meant)) return renamedOption(name, meant)
  return invalidOption(name, meant === undefined ? 'unknown option' : `unknown option; did you mean ${meant}?`)
}

export function renamedOption(field: string, now: string): PassOverError {
  return new PassOverError('E005', `${field} is ${now} now`, { field })
}

function lettersOf(name: string): string {
  return name.replaceAll('_', '').toLowerCase()
}

/** Returns true if `name` is the snake_case name that the option `now` had before it became camelCase. */
function isOldSpelling(name: string, now: string): boolean {
  return name.includes('_') && !now.includes('_') && (lettersOf(name) === lettersOf(now) || NEW_NAMES.get(name) === now)
}

export function invalidOption(field: string, why: string): PassOverError {
  return new PassOverError('E005', `${field}: ${why}`, { field })
}
