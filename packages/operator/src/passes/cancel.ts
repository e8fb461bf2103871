import { randomUUID } from 'node:crypto'
import { type Bus, CONTENT_TYPE, encode } from '@passover/bus'
import { type AnsweredPass, type CancelBody, HEADER, keyText, type PassKey, type PassRow, WIRE_VERSION } from '@passover/schemas'
import { askList, askPasses } from '../audit/ask.js'
import { Failure } from '../errors.js'
import { isOpen } from './status.js'

const END_TIMEOUT_MS = 5_000
const POLL_MS = 100

/** Publishes a cancel of a pass. Throws Failure E013 if it is not permitted, and E040 if it was not stored. */
export async function publishCancel(
  bus: Bus,
  { key, traceparent }: Pick<AnsweredPass, 'key' | 'traceparent'>,
  reason: string | undefined,
): Promise<void> {
  const body: CancelBody = { v: WIRE_VERSION, ...(reason === undefined ? {} : { reason }) }
  const outcome = await bus.publish({
    subject: bus.subjects.event(key, 'cancel', bus.identity),
    headers: {
      [HEADER.id]: key.id,
      [HEADER.nonce]: randomUUID(),
      [HEADER.contentType]: CONTENT_TYPE.msgpack,
      ...(traceparent === undefined ? {} : { [HEADER.traceparent]: traceparent }),
    },
    data: encode(body),
  })
  // With an unknown outcome, the end of the pass shows whether the cancel was stored.
  if (outcome.kind === 'refused')
    throw new Failure(outcome.reason === 'permission' ? 'E013' : 'E040', `the cancel was not stored: ${outcome.description}`)
}

/** Returns the open descendants of a pass, among the last 1,000 passes. */
export async function openBelow(bus: Bus, key: PassKey): Promise<PassRow[]> {
  const { passes } = await askList(bus, { limit: 1_000 })
  const open = passes.filter(isOpen)
  const descendants: PassRow[] = []
  const parents = [keyText(key)]
  for (let parent = parents.pop(); parent !== undefined; parent = parents.pop()) {
    for (const row of open.filter((candidate) => candidate.parent === parent)) {
      descendants.push(row)
      parents.push(keyText(row))
    }
  }
  return descendants
}

/** Waits until the pass has ended, at most 5 s, and returns its state. */
export async function waitUntilEnded(bus: Bus, pass: AnsweredPass): Promise<AnsweredPass> {
  const { originator, subagent, id } = pass.key
  const deadline = Date.now() + END_TIMEOUT_MS
  let last = pass
  while (isOpen(last.row) && Date.now() < deadline) {
    await new Promise((resolve) => setTimeout(resolve, POLL_MS))
    const [now] = await askPasses(bus, { id, from: originator, to: subagent })
    if (now) last = now
  }
  return last
}
