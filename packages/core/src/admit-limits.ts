import type { EffectivePolicy, PassError, PassKey } from '@passover/schemas'
import type { PassCounts, RateField, Reached } from './counting.js'
import { passError } from './errors.js'
import type { Limits } from './policy-base.js'
import type { RateScope } from './tally.js'

const FIELDS = ['max_passes_per_minute', 'max_active'] as const
const ANOTHER_SESSION = 'pass it over in another session, or raise max_passes_per_session'
const FEWER = 'ask for fewer passes within one, or raise max_passes_per_session'
const SCOPES = ['pair', 'subagent'] as const

/** What a pass is counted by. */
export interface Limited {
  counts: PassCounts | undefined
  limits: Limits | undefined
  policy: EffectivePolicy
  key: PassKey
  /** Of a child: the root of its tree. */
  root: PassKey | undefined
  /** Short name of the count that it is added to; undefined: it counts for nothing. */
  counted: () => string | undefined
  now: number
}

/**
 * E014 where a rate, a number or the session's limit is reached, of the pair or of all passes to the subagent: both bind. The
 * count stands in the error, so that the decision can be told again. `later`: it cannot be told yet.
 */
export function limitFault({ counts, limits, policy, key, root, counted, now }: Limited): PassError | 'later' | undefined {
  if (!counts) return undefined
  if (limits) {
    if (!counts.ready) return 'later'
    for (const scope of SCOPES) {
      for (const field of FIELDS) {
        const limit = limits[scope][field]
        const reached = limit === undefined ? undefined : counts.rate(scope, field, limit, now)
        if (limit !== undefined && reached) return rateError(key, { scope, field, limit }, reached)
      }
    }
  }
  const limit = policy.max_passes_per_session
  const token = counted()
  const reached = token === undefined ? undefined : counts.session(token, limit)
  if (!reached) return undefined
  const { count } = reached
  const message = root
    ? `${key.originator} asked for ${count} passes within pass ${root.id} already; at most ${limit} may be made in one tree (max_passes_per_session)`
    : `The session had ${count} passes already; at most ${limit} may be made in one (max_passes_per_session)`
  const details = { field: 'max_passes_per_session', scope: root ? 'tree' : 'session', limit, count }
  // Waiting never helps: a session that goes on keeps its count.
  return passError('E014', message, { ...details, recoverable: false, mend: root ? FEWER : ANOTHER_SESSION })
}

function rateError(key: PassKey, at: { scope: RateScope; field: RateField; limit: number }, reached: Reached): PassError {
  const { scope, field, limit } = at
  const whose = scope === 'pair' ? `from ${key.originator} to ${key.subagent}` : `to ${key.subagent}`
  const what = field === 'max_active' ? 'are open at a time' : 'began within the last minute'
  const message = `${reached.count} passes ${whose} ${what}; at most ${limit} may (${field} of the ${scope})`
  return passError('E014', message, { field, scope, limit, ...reached })
}
