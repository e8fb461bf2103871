import { journalFilter, type Step, SYSTEM } from '@passover/schemas'

/** Whether a stored return is the one that ended its pass. `unclear`: the whole journal must be read to say so. */
export type ReturnValidity = 'counts' | 'nothing' | 'unclear'

/** Whether any journal could count this return (I2), by its headers alone. */
export function mayCount({ key, by, attempt, untrusted }: Step): boolean {
  return untrusted === undefined && (by === SYSTEM || (by === key.subagent && attempt > 0))
}

/**
 * Judges a return by the work steps of its pass, before anything else of the journal is read: a subagent may store any number of returns, for ids
 * that nobody asked it for too. The system's are few, and taken to count until the journal says otherwise.
 */
export function judgeReturnByWork(returned: Step, works: readonly Step[]): ReturnValidity {
  const { key, by, attempt, guard } = returned
  if (!mayCount(returned)) return 'nothing'
  if (by === SYSTEM) return 'counts'
  if (works.length === 0) return 'nothing'
  // Nothing stands between the work and this return.
  const follows = guard?.subject === journalFilter(key) && works.some((work) => !work.untrusted && work.sequence === guard.sequence)
  return follows && attempt === 1 ? 'counts' : 'unclear'
}
