import type { Bus } from '@passover/bus'
import { timeAnswer } from '@passover/schemas'

/** Whether an installation verifies the names of people. `unverified` is set if any process can use any name. */
export interface NameVerification {
  unverified?: true | undefined
}

/**
 * Asks the audit service whether the installation verifies names. Ignores what messages claim about their author.
 *
 * @returns `undefined` if no audit service answers.
 */
export async function askNameVerification(bus: Bus): Promise<NameVerification | undefined> {
  const answer = timeAnswer.safeParse(await bus.ask({ op: 'time' }).catch(() => undefined))
  if (!answer.success || !answer.data.ok) return undefined
  return answer.data.names === 'unverified' ? { unverified: true } : {}
}
