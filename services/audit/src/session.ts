import type { Stored } from '@passover/bus'
import type { Fact } from '@passover/schemas'
import { frameIn } from './control.js'

/**
 * Session of a pass, as its held or work step says; nothing else of the message is decoded. Undefined where the pass claims another session than
 * its root's: who looks for either one reads the pass.
 */
export function sessionOf(stored: Stored, fact: Fact): string | undefined {
  if (fact.type !== 'step' || (fact.kind !== 'work' && fact.kind !== 'held')) return undefined
  const frame = frameIn(stored.data)?.frame
  const session: unknown = frame?.session_id
  return typeof session === 'string' && frame?.counted_session === undefined ? session : undefined
}
