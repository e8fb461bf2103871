import { openSync, readFileSync, writeSync } from 'node:fs'
import { type Agent, connect, type PassHandle, PassOverError, type PassOverOptions, type WorkOutput } from '@passover/sdk'
import { credentialsIn } from '../cluster/access.js'
import { type ChaosRequest, type OriginatorLogLine, planChaosRequest } from '../load/chaos-requests.js'
import { seededRandom } from '../seeded-random.js'
import { pause } from '../wait-for.js'
import { report, retryUntilDone, roleOptions } from './role.js'

/**
 * Requests passes, one every `every_ms` regardless of earlier ones, until it is stopped, and logs its requests and their results. After a kill and
 * restart it asks for the results of the ids that it has none for.
 */
interface Options {
  servers: string
  folder?: string
  agent: string
  every_ms: number
  seed: number
  history: string
  /** True to use durable returns. */
  durable: boolean
  /** Number of earlier starts of this process. */
  life: number
}

const SEED_STEP = 1_000_003
const { servers, folder, agent: name, every_ms, seed, history, durable, life } = roleOptions<Options>()
const file = openSync(history, 'a')
const choices = seededRandom(seed + life * SEED_STEP)
const stopping = new AbortController()
process.on('message', (message) => {
  if ((message as { stop?: boolean }).stop) stopping.abort()
})
const agent = await retryUntilDone(() => connect({ agent: name, servers, ...credentialsIn(folder, name), durableReturns: durable }))
// Takes the returns that arrived while it was away. Results for the log come from `tell` below.
if (durable) await retryUntilDone(() => agent.onDurableReturn(() => undefined))
const under = new Set<Promise<void>>()
for (const { id, to } of leftOpen()) follow(tell(agent.handle(id, to)))
report('ready')
const begun = performance.now()
for (let n = 0; !stopping.signal.aborted; n += 1) {
  await pause(begun + n * every_ms - performance.now(), stopping.signal)
  if (!stopping.signal.aborted) follow(run(agent, planChaosRequest(choices), `given-${name}-${seed}-${life}-${n}`))
}
await Promise.all(under)
report('done')

function follow(one: Promise<void>): void {
  const whole = one.finally(() => under.delete(whole))
  under.add(whole)
}

async function run(by: Agent, errand: ChaosRequest, given: string): Promise<void> {
  const { plan, priority, timeout_ms, times, to, cancel_after_ms } = errand
  const options: PassOverOptions = { subagent: to, reason: 'load', priority, timeout_ms, work_context: { objective: JSON.stringify(plan) } }
  if (errand.retries) {
    // The SDK generates the ids of retries, so their outcome is checked in the stream only.
    await by.passOverWithRetry(options).catch(() => undefined)
    return
  }
  const handles = Array.from({ length: times }, () => by.passOver({ ...options, ...(times > 1 && { id: given }) }))
  const at = Date.now()
  for (const { id } of handles) write({ t: 'asked', id, to, at, timeout_ms })
  for (const handle of handles) {
    handle.stored.then(
      () => write({ t: 'stored', id: handle.id, at: Date.now() }),
      () => undefined,
    )
  }
  const ends = handles.map(tell)
  if (cancel_after_ms !== undefined) {
    await pause(cancel_after_ms)
    await handles[0]?.cancel('changed my mind').then(
      () => write({ t: 'cancelled', id: handles[0]?.id ?? '', at: Date.now() }),
      () => undefined,
    )
  }
  await Promise.all(ends)
}

async function tell(handle: PassHandle): Promise<void> {
  const end = await handle.then(
    (output) => ({ outcome: 'ok', ...attemptOf(output) }),
    (error: unknown) => ({ outcome: error instanceof PassOverError ? error.code : String(error) }),
  )
  write({ t: 'told', id: handle.id, at: Date.now(), ...end })
}

/** Reads the number of the attempt from the text of the output, where workers put it. */
function attemptOf(output: WorkOutput): { attempt?: number } {
  const found = /done in attempt (\d+)/.exec(JSON.stringify(output))
  return found ? { attempt: Number(found[1]) } : {}
}

function write(line: OriginatorLogLine): void {
  writeSync(file, `${JSON.stringify(line)}\n`)
}

/** Returns the requests of earlier lives that have no result yet. */
function leftOpen(): { id: string; to: string }[] {
  const open = new Map<string, { id: string; to: string }>()
  for (const text of readFileSync(history, 'utf8').split('\n')) {
    if (!text.endsWith('}')) continue
    const line = JSON.parse(text) as OriginatorLogLine
    if (line.t === 'asked') open.set(line.id, { id: line.id, to: line.to })
    if (line.t === 'told') open.delete(line.id)
  }
  return [...open.values()]
}
