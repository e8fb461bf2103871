import type { Custody } from '@passover/core'
import type { PassKey } from '@passover/schemas'
import { type IdDeps, usesOfId } from './id-uses.js'

/** A pass that is to leave. */
export interface LeavingPass {
  key: PassKey
  /** As far as it is known; it is read where it matters and is not (of what was refused only its request says it). */
  session: string | undefined
  /** Messages of it: its id may have been used by another one, too. */
  sequences: readonly number[]
}

/** Whether a pass has to stay for now: it is held, or the erasure of its session is under way. */
export async function isHeld(custody: Custody, deps: IdDeps, { key, session, sequences }: LeavingPass): Promise<boolean> {
  if (custody.stays(key, session)) return true
  if (session !== undefined || !custody.needsSessions) return false
  const uses = await usesOfId(deps, key)
  const own = uses.filter(({ messages }) => messages.some(({ stored }) => sequences.includes(stored.sequence)))
  return own.some(({ session, claimed }) => custody.stays(key, session) || custody.stays(key, claimed))
}
