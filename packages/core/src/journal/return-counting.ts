import { journalFilter, type Step, SYSTEM } from '@passover/schemas'

/** Verdict on a stored return: `counts` if it is the one that ended its pass. `unclear` means that the whole journal must be read. */
export type ReturnValidity = 'counts' | 'nothing' | 'unclear'

/** Returns true if a journal could count this return (I2), judged by its headers alone. */
export function mayCount({ key, by, attempt, untrusted }: Step): boolean {
  return untrusted === undefined && (by === SYSTEM || (by === key.subagent && attempt > 0))
}

/**
 * Judges a return by the work steps of its pass, before the rest of the journal is read: a subagent can store any number of returns, even for ids
 * that were never requested. Returns of the system are few, and are assumed to count until the journal shows otherwise.
 */
export function judgeReturnByWork(returned: Step, works: readonly Step[]): ReturnValidity {
  const { key, by, attempt, guard } = returned
  if (!mayCount(returned)) return 'nothing'
  if (by === SYSTEM) return 'counts'
  if (works.length === 0) return 'nothing'
  // There is no other step between the work and this return.
  const follows = guard?.subject === journalFilter(key) && works.some((work) => !work.untrusted && work.sequence === guard.sequence)
  return follows && attempt === 1 ? 'counts' : 'unclear'
}
