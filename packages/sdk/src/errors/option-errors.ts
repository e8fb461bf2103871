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
    throw invalidOption(name, unknownOption(name, Object.keys(schema.shape)))
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

/** Returns the message for an unknown option, with the most similar known one. */
export function unknownOption(name: string, known: readonly string[]): string {
  const meant = closestMatch(name, known)
  return meant === undefined ? 'unknown option' : `unknown option; did you mean ${meant}?`
}

export function invalidOption(field: string, why: string): PassOverError {
  return new PassOverError('E005', `${field}: ${why}`, { field })
}
