import type { Bus } from '@passover/bus'
import { timeAnswer } from '@passover/schemas'

/** How far an installation vouches for the names of people: not at all where any process can claim one. */
export interface NameVerification {
  unverified?: true | undefined
}

/**
 * Asks the audit service whether the installation checks names. What a message says about its own author is not considered.
 *
 * @returns undefined if no audit service answers
 */
export async function askNameVerification(bus: Bus): Promise<NameVerification | undefined> {
  const answer = timeAnswer.safeParse(await bus.ask({ op: 'time' }).catch(() => undefined))
  if (!answer.success || !answer.data.ok) return undefined
  return answer.data.names === 'unverified' ? { unverified: true } : {}
}
