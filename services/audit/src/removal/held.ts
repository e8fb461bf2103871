import type { Custody } from '@passover/core'
import type { PassKey } from '@passover/schemas'
import { describe } from '../describe.js'
import { type LoadDeps, loadPass } from '../load.js'

/** Whether a pass is held. `session`: as far as it is known; it is read where it matters and is not (of what was refused only its request says it). */
export async function isHeld(custody: Custody, deps: LoadDeps, pass: { key: PassKey; session: string | undefined }): Promise<boolean> {
  if (custody.holds.length === 0) return false
  const session = pass.session ?? (custody.holdsSessions ? await sessionOf(deps, pass.key) : undefined)
  return custody.holdsOn(pass.key, session).length > 0
}

async function sessionOf(deps: LoadDeps, key: PassKey): Promise<string | undefined> {
  const { memory } = await loadPass(deps, key, { up_to: Number.MAX_SAFE_INTEGER })
  return describe(memory, deps.rules).record.session_id
}
