import type { Bus } from '@passover/bus'
import { findPass, isOpen, openBelow, type PassRef, publishCancel, statusLabel, waitUntilEnded } from '@passover/operator'
import type { Context } from '../connection/context.js'
import { formatPerson, readNameVerification } from '../connection/verified-names.js'
import { DECLINED } from '../errors.js'
import { confirmAction } from '../input/confirm.js'
import { count, formatCommands } from '../terminal/text.js'

export interface CancelRequest extends PassRef {
  reason?: string
  dryRun?: true
  yes?: true
}

/** Cancels a pass and waits until it has ended. Exit code 0 if it is cancelled (now or before), 1 if not. */
export async function cancelPass(bus: Bus, context: Context, given: CancelRequest): Promise<number> {
  const { terminal } = context
  const pass = await findPass(bus, given)
  const { id } = pass.row
  if (!isOpen(pass.row)) {
    terminal.show(
      { id, cancelled: pass.status === 'cancelled', status: pass.status },
      () => `${id} has already ended: ${statusLabel(pass.row)}.`,
    )
    return pass.status === 'cancelled' ? 0 : 1
  }
  const below = await openBelow(bus, pass.key)
  const what = below.length === 0 ? id : `${id} and ${count(below.length, 'descendant')}`
  if (given.dryRun) {
    terminal.show({ id, dry_run: true, would_cancel: [id, ...below.map((row) => row.id)] }, () => `Would cancel ${what}.`)
    return 0
  }
  if (below.length > 0 && !given.yes && terminal.interactive && !(await confirmAction(`Cancel ${what}?`))) return DECLINED
  await publishCancel(bus, pass, given.reason)
  const ended = await waitUntilEnded(bus, pass)
  const cancelled = ended.status === 'cancelled'
  const names = await readNameVerification(bus, context)
  terminal.show({ id, cancelled, status: ended.status, by: bus.identity, ...names, below: below.map((row) => row.id) }, () =>
    cancelled
      ? `Cancelled ${what} as ${formatPerson(bus.identity, names)}.`
      : isOpen(ended.row)
        ? `Requested the cancellation of ${what}; it has not ended yet. ${formatCommands(`To see its state: passover show ${id}`)}`
        : `${id} had already ended: ${statusLabel(ended.row)}.`,
  )
  return cancelled ? 0 : 1
}
