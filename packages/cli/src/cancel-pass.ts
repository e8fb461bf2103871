import { randomUUID } from 'node:crypto'
import { type Bus, CONTENT_TYPE, encode } from '@passover/bus'
import { type AnsweredPass, type CancelBody, HEADER, keyText, type PassKey, type PassRow, WIRE_VERSION } from '@passover/schemas'
import { agreed } from './agreed.js'
import { askList, askPasses, findPass, type PassRef } from './ask.js'
import { CliFailure } from './failure.js'
import { isOpen, standing } from './render/rows.js'
import type { Terminal } from './terminal.js'
import { count } from './text.js'

const END_MS = 5_000
const POLL_MS = 100

export interface CancelRequest extends PassRef {
  reason?: string
  dryRun?: true
  yes?: true
}

/** Asks for a pass's end and waits until it has ended. Exit 0: cancelled (now or before); 1: it had ended otherwise. */
export async function cancelPass(bus: Bus, terminal: Terminal, given: CancelRequest): Promise<number> {
  const pass = await findPass(bus, given)
  const { id } = pass.row
  if (!isOpen(pass.row)) {
    terminal.show(
      { id, cancelled: pass.status === 'cancelled', status: pass.status },
      () => `${id} has already ended: ${standing(pass.row)}.`,
    )
    return pass.status === 'cancelled' ? 0 : 1
  }
  const below = await openBelow(bus, pass.key)
  const what = below.length === 0 ? id : `${id} and ${count(below.length, 'pass', 'passes')} below it`
  if (given.dryRun) {
    terminal.show({ id, dry_run: true, would_cancel: [id, ...below.map((row) => row.id)] }, () => `Would cancel ${what}.`)
    return 0
  }
  if (below.length > 0 && !given.yes && terminal.interactive && !(await agreed(`Cancel ${what}?`))) return 1
  await publishCancel(bus, pass.key, given.reason)
  const ended = await untilEnded(bus, pass)
  const cancelled = ended.status === 'cancelled'
  terminal.show({ id, cancelled, status: ended.status, below: below.map((row) => row.id) }, () =>
    cancelled
      ? `Cancelled ${what}.`
      : isOpen(ended.row)
        ? `Asked for the end of ${what}; it has not ended yet. passover show ${id} tells.`
        : `${id} ended before: ${standing(ended.row)}.`,
  )
  return cancelled ? 0 : 1
}

async function publishCancel(bus: Bus, key: PassKey, reason: string | undefined): Promise<void> {
  const body: CancelBody = { v: WIRE_VERSION, ...(reason === undefined ? {} : { reason }) }
  const outcome = await bus.publish({
    subject: bus.subjects.event(key, 'cancel', bus.identity),
    headers: { [HEADER.id]: key.id, [HEADER.nonce]: randomUUID(), [HEADER.contentType]: CONTENT_TYPE.msgpack },
    data: encode(body),
  })
  // An unknown outcome is found out by whether the pass ends.
  if (outcome.kind === 'refused')
    throw new CliFailure(outcome.reason === 'permission' ? 'E013' : 'E040', `the cancel was not stored: ${outcome.description}`)
}

/** Open passes below one, at any depth, as far as the last thousand tell. */
async function openBelow(bus: Bus, key: PassKey): Promise<PassRow[]> {
  const { passes } = await askList(bus, { limit: 1_000 })
  const open = passes.filter(isOpen)
  const found: PassRow[] = []
  const wanted = [keyText(key)]
  for (let parent = wanted.pop(); parent !== undefined; parent = wanted.pop()) {
    for (const row of open.filter((candidate) => candidate.parent === parent)) {
      found.push(row)
      wanted.push(keyText(row))
    }
  }
  return found
}

async function untilEnded(bus: Bus, pass: AnsweredPass): Promise<AnsweredPass> {
  const { originator, subagent, id } = pass.key
  const deadline = Date.now() + END_MS
  let last = pass
  while (isOpen(last.row) && Date.now() < deadline) {
    await new Promise((again) => setTimeout(again, POLL_MS))
    const [now] = await askPasses(bus, { id, from: originator, to: subagent })
    if (now) last = now
  }
  return last
}
