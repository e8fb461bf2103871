import { randomBytes } from 'node:crypto'
import { encode, openBus, splitContext } from '@passover/bus'
import { HEADER, makeId, makeInstance, type Random } from '@passover/schemas'
import { order, say } from './role.js'

/** Publishes as many requests as it is told to, IN_FLIGHT at a time, and holds nothing of them. Each has a session of its own: the loop breaker is none of this. */

const TIMEOUT_MS = 600_000
const random: Random = { bytes: (length) => randomBytes(length) }
const agent = process.env.PASSOVER_AGENT ?? ''
const bus = await openBus({ servers: process.env.NATS_URL ?? '', identity: agent, onError: () => undefined })
const instance = makeInstance(random)
const { parts } = splitContext({ session_id: '', directory: '/load', objective: 'look', files: [], messages: [] })
let sessions = 0

async function publish(to: string): Promise<void> {
  const id = makeId(instance, bus.now(), random)
  const request = { id, originating_agent_id: agent, subagent_id: to, reason: 'load', return_required: true, timeout_ms: TIMEOUT_MS }
  const message = {
    subject: bus.subjects.request(to, agent),
    data: encode({ v: 1, request, parts, session_id: `s${sessions++}` }),
    headers: { [HEADER.id]: id, [HEADER.timeout]: String(TIMEOUT_MS) },
  }
  // A second copy of what was stored after all does no harm.
  while ((await bus.publish(message)).kind !== 'stored');
}

await say('ready')
for (;;) {
  const told = await order('ask')
  let left = Number(told.passes)
  const lane = async () => {
    while (left-- > 0) await publish(String(told.to))
  }
  await Promise.all(Array.from({ length: Number(process.env.IN_FLIGHT ?? 32) }, lane))
}
