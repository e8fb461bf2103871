import type { Custody } from '@passover/core'
import type { PassKey } from '@passover/schemas'
import { describe } from '../describe.js'
import { type LoadDeps, loadPass } from '../load.js'

/**
 * Whether a pass has to stay for now: it is held, or the erasure of its session is under way. `session`: as far as it is known; it is read where it
 * matters and is not (of what was refused only its request says it).
 */
export async function isHeld(custody: Custody, deps: LoadDeps, pass: { key: PassKey; session: string | undefined }): Promise<boolean> {
  const session = pass.session ?? (custody.needsSessions ? await sessionOf(deps, pass.key) : undefined)
  return custody.stays(pass.key, session)
}

async function sessionOf(deps: LoadDeps, key: PassKey): Promise<string | undefined> {
  const { memory, messages } = await loadPass(deps, key, { up_to: Number.MAX_SAFE_INTEGER })
  return messages.length === 0 ? undefined : describe(memory, deps.rules).record.session_id
}
