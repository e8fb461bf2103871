import type { Bus } from '@passover/bus'
import { timeAnswer } from '@passover/schemas'

/** Result of asking whether an installation verifies the names of people. `unverified` is set if any process can claim a name. */
export interface NameVerification {
  unverified?: true | undefined
}

/**
 * Asks the audit service whether the installation verifies names. What a message claims about its own author is not considered.
 *
 * @returns `undefined` if no audit service answers.
 */
export async function askNameVerification(bus: Bus): Promise<NameVerification | undefined> {
  const answer = timeAnswer.safeParse(await bus.ask({ op: 'time' }).catch(() => undefined))
  if (!answer.success || !answer.data.ok) return undefined
  return answer.data.names === 'unverified' ? { unverified: true } : {}
}
