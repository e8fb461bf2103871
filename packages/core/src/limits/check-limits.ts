import type { EffectivePolicy, PassError, PassKey } from '@passover/schemas'
import { passError } from '../errors.js'
import { type Limits, originatorShare } from '../policy/base-policy.js'
import { SYSTEM_DEFAULTS } from '../policy/fields.js'
import type { LimitReached, PassCounts, RateField } from './limit-counters.js'
import type { RateScope } from './sliding-window.js'

const FIELDS = ['max_passes_per_minute', 'max_active'] as const
const ANOTHER_SESSION = 'request it in another session, or raise max_passes_per_session'
const FEWER = 'request fewer passes within one tree, or raise max_passes_per_session'

/** Input of {@link limitFault}. */
export interface Limited {
  counts: PassCounts | undefined
  limits: Limits | undefined
  policy: EffectivePolicy
  key: PassKey
  /** Root of the tree, for a child. */
  root: PassKey | undefined
  /** Returns the short name of the count that the pass is added to, or `undefined` if it is not counted. */
  counted: () => string | undefined
  now: number
}

interface Bound {
  scope: RateScope
  field: RateField
  limit: number
  /** For a share: the whole limit that it is a share of. */
  of?: number
}

/** Yields the limits that apply to a pass: those of its pair and of its subagent, and its originator's share of the latter. */
function* boundsOf({ pair, subagent }: Limits): Generator<Bound> {
  for (const field of FIELDS) {
    const own = pair[field]
    if (own !== undefined) yield { scope: 'pair', field, limit: own }
    const all = subagent[field]
    if (all === undefined) continue
    yield { scope: 'subagent', field, limit: all }
    if (own === undefined) yield { scope: 'share', field, limit: originatorShare(all), of: all }
  }
}

/**
 * Returns E014 if a limit is reached: a rate or a number of the pair, of the subagent, or of the originator's share of the subagent (all apply); the
 * number of open passes of a pair without a `max_active` of its own; for a pass that would be held, the number of held passes of its originator; or
 * the limit of the session. The error contains the count, so that the decision can be verified later. Returns `later` if the counts are not loaded
 * yet.
 */
export function limitFault({ counts, limits, policy, key, root, counted, now }: Limited): PassError | 'later' | undefined {
  if (!counts) return undefined
  if (limits) {
    if (!counts.ready) return 'later'
    for (const bound of boundsOf(limits)) {
      const reached = counts.rate(bound.scope, bound.field, bound.limit, now)
      if (reached) return rateError(key, bound, reached)
    }
  }
  if (limits?.pair.max_active === undefined) {
    const { max_open = SYSTEM_DEFAULTS.max_open } = policy
    const reached = counts.rate('pair', 'max_active', max_open, now)
    // Until all stored messages are read, the count may be wrong. Only pairs that seem to have reached the limit wait for that.
    if (reached) return counts.ready ? openError(key, max_open, reached) : 'later'
  }
  if (policy.hold_before_dispatch) {
    if (!counts.ready) return 'later'
    const { max_held = SYSTEM_DEFAULTS.max_held } = policy
    const reached = counts.held(max_held)
    if (reached) return heldError(key, max_held, reached)
  }
  const limit = policy.max_passes_per_session
  const token = counted()
  const reached = token === undefined ? undefined : counts.session(token, limit)
  if (!reached) return undefined
  const { count } = reached
  const message = root
    ? `${key.originator} already requested ${count} passes within the tree of ${root.id}; the limit is ${limit} in one tree (max_passes_per_session)`
    : `The session already has ${count} passes; the limit is ${limit} in one session (max_passes_per_session)`
  const details = { field: 'max_passes_per_session', scope: root ? 'tree' : 'session', limit, count }
  // Waiting never helps: a session keeps its count as long as it is used.
  return passError('E014', message, { ...details, recoverable: false, mend: root ? FEWER : ANOTHER_SESSION })
}

function openError({ originator, subagent }: PassKey, limit: number, reached: LimitReached): PassError {
  const message = `${reached.count} passes from ${originator} to ${subagent} are open; the limit is ${limit} (max_open)`
  const mend = `try again later, cancel some passes (passover cancel --from ${originator} --to ${subagent} --all), or raise max_open`
  return passError('E014', message, { field: 'max_open', scope: 'pair', limit, ...reached, mend })
}

function heldError({ originator }: PassKey, limit: number, reached: LimitReached): PassError {
  const message = `${reached.count} passes of ${originator} wait for a person's approval; the limit is ${limit} (max_held)`
  const mend = `approve, deny or cancel some of them (passover list --from ${originator} --status held), or raise max_held`
  return passError('E014', message, { field: 'max_held', scope: 'originator', limit, ...reached, mend })
}

function rateError({ originator, subagent }: PassKey, { scope, field, limit, of }: Bound, reached: LimitReached): PassError {
  const whose = scope === 'subagent' ? `to ${subagent}` : `from ${originator} to ${subagent}`
  const what = field === 'max_active' ? 'are open' : 'were admitted within the last minute'
  const counted = `${reached.count} passes ${whose} ${what}`
  if (of === undefined)
    return passError('E014', `${counted}; the limit is ${limit} (${field} of the ${scope})`, { field, scope, limit, ...reached })
  const bound = `one originator may use at most ${limit} of the ${of} that ${field} of ${subagent} allows`
  const mend = `try again later, or set ${field} for the pair ${originator}->${subagent} in the policy`
  return passError('E014', `${counted}; ${bound}`, { field, scope, limit, of, ...reached, mend })
}
