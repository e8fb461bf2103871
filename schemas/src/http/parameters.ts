import { z } from 'zod'
import { filled, text } from '../base/bounded-types.js'
import { agentName } from '../base/identifiers.js'
import { LIMITS } from '../base/limits.js'

/** An integer in a query. Only digits are accepted, so `1e3` and ` 7` are errors. */
export function wholeNumber(least: number, most: number) {
  return z.preprocess(
    (value) => (typeof value === 'string' && /^\d{1,16}$/.test(value) ? Number(value) : value),
    z.int(`a whole number from ${least} to ${most}`).min(least).max(most),
  )
}

/** Times below this value are in seconds, such as 1700000000. */
const SECONDS_BELOW = 1e11

/** A time in a query, in Unix seconds or milliseconds. */
export const givenTime = wholeNumber(0, LIMITS.time)

/** Converts the time of a query to milliseconds. */
export function inMilliseconds(given: number): number {
  return given < SECONDS_BELOW ? given * 1_000 : given
}

/** `true` or `false` in a query. */
export const flag = z.enum(['true', 'false'])

export const cursor = filled(120)

/** Selects a pass if several share the id. */
export const parties = { from: agentName.optional(), to: agentName.optional() }

/** Id of a pass in a path; also `bad-<sequence>`. A malformed id matches no pass. */
export const idPath = z.object({ id: text(64) })

/** Reason for a person's action, recorded in the audit trail. */
export const reasoned = { reason: text(LIMITS.line).optional() }
