import { randomBytes } from 'node:crypto'
import { encode, openBus, splitContext } from '@passover/bus'
import { HEADER, makeId, makeInstance, type Random } from '@passover/schemas'
import { insist, optionsOf, say } from './load-role.js'

/** Publishes requests as fast as the server stores them, and holds nothing of them. */
interface Options {
  servers: string
  agent: string
  to: string
  passes: number
  timeout_ms: number
  /** Length of each objective's padding. */
  padding: number
  /** Requests on their way at once (default 2,000). */
  in_flight?: number
}

const IN_FLIGHT = 2_000
/** As many sessions, so that none comes to its limit. */
const PASSES_A_SESSION = 500

const { servers, agent, to, passes, timeout_ms, padding, in_flight = IN_FLIGHT } = optionsOf<Options>()
const random: Random = { bytes: (length) => randomBytes(length) }
const bus = await insist(() => openBus({ servers, identity: agent }))
const instance = makeInstance(random)
const objective = JSON.stringify({ ms: 0, padding: 'x'.repeat(padding) })
const { parts } = splitContext({ session_id: 'burst', directory: '/burst', objective, files: [], messages: [] })
const subject = bus.subjects.request(to, agent)
let begun = 0
const started = performance.now()
await Promise.all(Array.from({ length: in_flight }, lane))
say('published', { ms: Math.round(performance.now() - started) })

async function lane(): Promise<void> {
  while (begun < passes) {
    begun += 1
    const id = makeId(instance, bus.now(), random)
    const request = { id, originating_agent_id: agent, subagent_id: to, reason: 'burst', return_required: false, timeout_ms }
    const data = encode({ v: 1, request, parts, session_id: `burst ${Math.floor(begun / PASSES_A_SESSION)}` })
    const message = { subject, data, headers: { [HEADER.id]: id, [HEADER.timeout]: String(timeout_ms) } }
    // A second copy of what was stored after all does no harm.
    while ((await bus.publish(message)).kind !== 'stored');
  }
}
