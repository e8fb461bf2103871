import type { PassError } from '@passover/schemas'
import type { DueEnd } from './due.js'
import { passError } from './errors.js'
import type { Why } from './open-pass.js'

/** The error that ends a due pass, as its terminal return says it: E005, E010, E013 or E043. `now` in server ms. */
export function endingError(due: DueEnd, now: number): PassError {
  const { key, journal, code, why } = due
  const timeout_ms = journal.state === 'open' ? journal.work.timeout_ms : undefined
  const attempt = journal.state === 'open' ? { attempt: journal.attempt } : {}
  const details = { why, server_time: now, ...attempt, ...(timeout_ms === undefined ? {} : { timeout_ms }), ...DETAILS[why] }
  return passError(code, SENTENCES[why](key.subagent, timeout_ms), details)
}

const SENTENCES: Record<Why, (subagent: string, timeout_ms: number | undefined) => string> = {
  cancelled: () => 'Cancelled',
  'deadline passed': (subagent, timeout_ms) =>
    `${subagent} did not return within ${timeout_ms === undefined ? 'its timeout' : `${timeout_ms} ms`}`,
  'approval expired': () => 'Nobody approved it in time',
  "parent's deadline passed": () => "Nobody approved it before its parent's deadline",
  'never admitted': () => 'No dispatcher admitted it within its timeout',
  'id expired': () => 'The id is expired, and nothing was dispatched for it',
  'parent ended': () => 'The pass that it belongs to has ended',
  'earlier attempt': () => 'It belongs to an earlier attempt of its parent, which was begun anew',
}

const DETAILS: Partial<Record<Why, Record<string, unknown>>> = {
  'approval expired': { approval: 'expired' },
  "parent's deadline passed": { approval: 'expired' },
  'id expired': { expired: true },
}
