import { foldJournal, PassOverError, passStatus } from '@passover/core'
import { type PassKey, type PassStatus, passStatus as passStatusSchema } from '@passover/schemas'
import type { Deps } from '../runtime/dependencies.js'
import type { IdWindow } from './id-window.js'
import { askAudit } from './poll.js'

/**
 * Returns the status of a pass from the audit service, or from exact gets of its journal if the audit service does not answer. Throws E041 if there
 * is no such pass, and E040 if there is no answer.
 */
export async function readPassStatus(context: { deps: Deps; window: IdWindow }, key: PassKey): Promise<PassStatus> {
  const answer = await askAudit(context.deps.bus, key)
  if (answer.kind === 'pass') {
    const known = passStatusSchema.safeParse(answer.pass.status)
    if (known.success) return known.data
  }
  const steps = await context.deps.bus.journal.glimpse(key).catch(() => undefined)
  if (steps?.length) return passStatus(foldJournal(steps, context.window).journal)
  if (answer.kind === 'unknown') throw new PassOverError('E041', `no pass ${key.id} to ${key.subagent} exists`, { ...key })
  if (steps) return 'requested'
  throw new PassOverError('E040', 'the server cannot be reached', { ...key })
}
