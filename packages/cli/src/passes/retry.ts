import { eventOf } from '@passover/archive'
import { type Bus, joinContext, loadParts, PartError } from '@passover/bus'
import { findPass, isOpen, type PassRef, refuseEndedParent, statusLabel } from '@passover/operator'
import { LIMITS, type PassRow } from '@passover/schemas'
import type { PassOverOptions } from '@passover/sdk'
import { connectPerson } from '../connection/connect-person.js'
import type { Context } from '../connection/context.js'
import { CliFailure } from '../errors.js'
import { StoredRecord } from '../stored-messages/stored-record.js'
import { storedRequestOf } from '../stored-messages/stored-requests.js'
import { passOverAndWait } from './request.js'

/**
 * Requests a failed pass again, as its originator. Throws CliFailure E031 if it has not failed or not ended, E041 if its request or context is no
 * longer stored, and E013 if its parent pass has ended.
 */
export async function runRetry(context: Context, ref: PassRef, wait: boolean): Promise<number> {
  const { terminal } = context
  context.announcedServer()
  const { from, request } = await readRequest(context, ref)
  if (terminal.mode === 'human') terminal.note(`Requesting ${request.retry_of} from ${request.subagent} again, as ${from}.`)
  return passOverAndWait(context, { from, request, wait })
}

async function readRequest(context: Context, ref: PassRef): Promise<{ from: string; request: PassOverOptions }> {
  await using bus = await connectPerson(context)
  const pass = await findPass(bus, ref, { history: true })
  refuseUnfailed(pass.row)
  const stored = await storedRequestOf(bus, pass)
  const reading = stored && new StoredRecord(eventOf(stored), bus.subjects).reading()
  if (!reading) throw noLongerStored(pass.row, 'its request is no longer stored')
  if (!reading.ok) throw noLongerStored(pass.row, reading.error.message)
  const { id: _, originating_agent_id: from, subagent_id: subagent, attempts_made: __, ...control } = reading.value.request
  if (control.parent) await refuseEndedParent(bus, pass.row, control.parent)
  const joined = joinContext(await partsOf(bus, pass.row, reading.value.parts))
  if (!joined.ok) throw noLongerStored(pass.row, joined.error)
  return { from, request: { ...control, subagent, work_context: joined.value, retry_of: pass.row.id } }
}

function refuseUnfailed(row: PassRow): void {
  const { id } = row
  if (isOpen(row)) throw refused(`${id} has not ended: its status is ${statusLabel(row)}`, `to cancel it first: passover cancel ${id}`)
  if (row.status === 'awaiting_release')
    throw refused(`${id} has a result that waits for a decision`, `to see it: passover inbox, or passover show ${id}`)
  const failed = row.code !== undefined || row.output_status === 'failed' || row.output_status === 'aborted'
  if (!failed)
    throw refused(
      `${id} did not fail: its status is ${statusLabel(row)}`,
      `passover show ${id} shows its result; to request the work again anyway: passover request`,
    )
}

function refused(message: string, hint: string): CliFailure {
  return new CliFailure('E031', message, { hint })
}

function noLongerStored({ id }: PassRow, why: string): CliFailure {
  return new CliFailure('E041', `${id} cannot be retried: ${why}`, { hint: 'send a new request with its context: passover request' })
}

async function partsOf(bus: Bus, row: PassRow, parts: Parameters<typeof loadParts>[1]) {
  try {
    return await loadParts(bus.parts, parts, LIMITS.context_bytes)
  } catch (error) {
    if (!(error instanceof PartError)) throw error
    throw noLongerStored(row, `its context is no longer stored: ${error.message}`)
  }
}
