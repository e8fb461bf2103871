import type { Stored } from '@passover/bus'
import type { Fact } from '@passover/schemas'
import { frameIn } from './control.js'

/** Session of a pass, as its held or work step says; nothing else of the message is decoded. */
export function sessionOf(stored: Stored, fact: Fact): string | undefined {
  if (fact.type !== 'step' || (fact.kind !== 'work' && fact.kind !== 'held')) return undefined
  const session: unknown = frameIn(stored.data)?.frame.session_id
  return typeof session === 'string' ? session : undefined
}
