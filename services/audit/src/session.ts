import type { Stored } from '@passover/bus'
import type { Fact } from '@passover/schemas'
import { controlIn } from './control.js'
import { sliceOf } from './slice.js'
import { unpack } from './unpack.js'

/** Session of a pass, as its held or work step says; nothing else of the message is decoded. */
export function sessionOf(stored: Stored, fact: Fact): string | undefined {
  if (fact.type !== 'step' || (fact.kind !== 'work' && fact.kind !== 'held')) return undefined
  const control = controlIn(stored.data)
  const session = control && sliceOf(control, 'session_id')
  const decoded = session && unpack(session)
  return typeof decoded === 'string' ? decoded : undefined
}
