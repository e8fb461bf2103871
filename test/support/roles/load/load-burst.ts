import { randomBytes } from 'node:crypto'
import { encode, openBus, splitContext } from '@passover/bus'
import type { LoadPlan } from '@passover/chaos'
import { HEADER, makeId, makeInstance, type Random } from '@passover/schemas'
import { insist, optionsOf, pause, say } from './load-role.js'

/** Publishes requests as fast as the server stores them, or so many a second, and holds nothing of them. */
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
  /** By so many originators in turn, `<agent>1` and so on (default: by `agent`). */
  originators?: number
  per_second?: number
  /** What the worker is to do (default: nothing, at once). */
  plan?: LoadPlan
  /** Every second one is no request at all. */
  malformed?: boolean
}

const IN_FLIGHT = 2_000
/** As many sessions, so that none comes to its limit. */
const PASSES_A_SESSION = 500
const MALFORMED = new Uint8Array([0xc1, 0, 0xff])

const options = optionsOf<Options>()
const { to, passes, timeout_ms, padding, originators, per_second, plan = { ms: 0 } } = options
const random: Random = { bytes: (length) => randomBytes(length) }
const bus = await insist(() => openBus({ servers: options.servers, identity: options.agent }))
const instance = makeInstance(random)
const objective = JSON.stringify({ ...plan, padding: 'x'.repeat(padding) })
const { parts } = splitContext({ session_id: 'burst', directory: '/burst', objective, files: [], messages: [] })
let begun = 0
const started = performance.now()
say('begins')
await Promise.all(Array.from({ length: options.in_flight ?? IN_FLIGHT }, lane))
say('published', { ms: Math.round(performance.now() - started) })

async function lane(): Promise<void> {
  while (begun < passes) {
    const n = begun++
    if (per_second) await pause(started + (n * 1_000) / per_second - performance.now())
    const message = messageOf(n)
    // A second copy of what was stored after all does no harm.
    while ((await bus.publish(message)).kind !== 'stored');
  }
}

function messageOf(n: number) {
  const agent = originators === undefined ? options.agent : `${options.agent}${(n % originators) + 1}`
  const subject = bus.subjects.request(to, agent)
  if (options.malformed && n % 2 === 1) return { subject, data: MALFORMED }
  const id = makeId(instance, bus.now(), random)
  const request = { id, originating_agent_id: agent, subagent_id: to, reason: 'burst', return_required: false, timeout_ms }
  const data = encode({ v: 1, request, parts, session_id: `burst ${Math.floor(n / PASSES_A_SESSION)}` })
  return { subject, data, headers: { [HEADER.id]: id, [HEADER.timeout]: String(timeout_ms) } }
}
