import { z } from 'zod'
import { filled, text } from '../base/bounded-types.js'
import { agentName } from '../base/identifiers.js'
import { LIMITS } from '../base/limits.js'

/** A whole number in a query: only digits count as one, so that `1e3` and ` 7` are mistakes. */
export function wholeNumber(least: number, most: number) {
  return z.preprocess(
    (value) => (typeof value === 'string' && /^\d{1,16}$/.test(value) ? Number(value) : value),
    z.int(`a whole number from ${least} to ${most}`).min(least).max(most),
  )
}

/** Below it a time is in seconds, such as 1700000000. */
const SECONDS_BELOW = 1e11

/** A time of a query in ms, given as Unix seconds or milliseconds. */
export const givenTime = wholeNumber(0, LIMITS.time)

/** The same in ms. */
export function inMilliseconds(given: number): number {
  return given < SECONDS_BELOW ? given * 1_000 : given
}

/** `true` or `false` in a query. */
export const flag = z.enum(['true', 'false'])

export const cursor = filled(120)

/** Which pass is meant, where several share the id. */
export const parties = { from: agentName.optional(), to: agentName.optional() }

/** A pass's id in a path; also `bad-<sequence>`. What is none names no pass. */
export const idPath = z.object({ id: text(64) })

/** Why a person does something; it stands in the audit trail. */
export const reasoned = { reason: text(LIMITS.line).optional() }
