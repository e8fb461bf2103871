import { BUILDER, CHECKER } from '@passover/chaos'
import { agentRecord } from '@passover/schemas'
import { type Agent, connect } from '@passover/sdk'
import { Field } from '../chaos/field.js'

/**
 * A quiet agent's passes, one at a time, alone and beside trouble on other subjects: poison, a flood, a dead subagent with a backlog.
 * `npm run bench -- --isolation`. The flood's size by PASSOVER_FLOOD.
 */
const FLOOD = Number(process.env.PASSOVER_FLOOD ?? 50_000)
const BACKLOG = 20_000
const PASSES = 600
const WARM = 100
const DEAD = 'dead'
const TIMEOUT_MS = 300_000
const POISON_EVERY_MS = 5

interface Figures {
  p50: number
  p99: number
  most: number
  passes: number
}

await using field = await Field.start({ dispatchers: 1, workers: 1, agents: [CHECKER], concurrency: 8 })
const noisy = field.player('noisy worker', 'worker', { agents: [BUILDER], concurrency: 16 })
await noisy.ready()
const table = await field.bus.table('agents', agentRecord)
const roles = { originates: 'within_a_pass' as const, subagent: true }
await table.put(DEAD, { name: DEAD, roles, registered_by: 'bench', updated_at: field.bus.now() })
await field.bus.ensureAgent(DEAD, { subagent: true, max_attempts: 3, lease_ms: 5_000 })
await using alice = await connect({ agent: 'alice', servers: field.nats.servers })

await measure(alice, once(WARM))
const alone = await measure(alice, once(PASSES))
row('alone', alone)
row('beside poison', await besidePoison())
row('beside a dead subagent', await besideDead())
row(`while ${FLOOD} requests flood in`, await besideFlood())
row('alone again', await measure(alice, once(PASSES)))

/** Malformed requests and a handler that throws, all the time. */
async function besidePoison(): Promise<Figures> {
  const { subjects } = field.bus
  const throwing = JSON.stringify({ ms: 0, throws: true })
  const timer = setInterval(() => {
    void field.bus.publish({ subject: subjects.request(BUILDER, 'mallory'), data: new Uint8Array([0xc1, 0, 0xff]) })
    alice.passOver({ subagent: BUILDER, reason: 'poison', work_context: { objective: throwing } }).catch(() => undefined)
  }, POISON_EVERY_MS)
  const figures = await measure(alice, once(PASSES))
  clearInterval(timer)
  return figures
}

async function besideDead(): Promise<Figures> {
  await burst(DEAD, BACKLOG)
  await untilDispatched(DEAD, BACKLOG)
  return await measure(alice, once(PASSES))
}

/** From the first of the flood until the last of it is done. */
async function besideFlood(): Promise<Figures> {
  let over = false
  const flooding = burst(BUILDER, FLOOD)
    .then(() => field.untilIdle([BUILDER], TIMEOUT_MS))
    .then(() => {
      over = true
    })
  const figures = await measure(alice, () => !over)
  await flooding
  return figures
}

async function burst(to: string, passes: number): Promise<void> {
  const options = { agent: 'mallory', to, passes, timeout_ms: TIMEOUT_MS, padding: 200 }
  const publisher = field.player(`burst to ${to}`, 'burst', options)
  const { ms } = await publisher.process.heard('published', TIMEOUT_MS)
  console.log(`  (${passes} requests to ${to} stored in ${ms} ms)`)
}

async function untilDispatched(to: string, count: number): Promise<void> {
  for (;;) {
    const loads = await field.bus.workload(to)
    if (loads.reduce((sum, { queued }) => sum + queued, 0) >= count) return
    await new Promise((again) => setTimeout(again, 250))
  }
}

function once(passes: number): (done: number) => boolean {
  return (done) => done < passes
}

async function measure(agent: Agent, more: (done: number) => boolean): Promise<Figures> {
  const times: number[] = []
  while (more(times.length)) {
    const begun = performance.now()
    const context = { objective: JSON.stringify({ ms: 0 }) }
    await agent.passOver({ subagent: CHECKER, reason: 'quiet', timeout_ms: TIMEOUT_MS, work_context: context })
    times.push(performance.now() - begun)
  }
  times.sort((a, b) => a - b)
  const at = (share: number) => times[Math.min(times.length - 1, Math.floor(times.length * share))] ?? Number.NaN
  return { p50: at(0.5), p99: at(0.99), most: at(1), passes: times.length }
}

function row(what: string, { p50, p99, most, passes }: Figures): void {
  const ms = (value: number) => `${value.toFixed(1)} ms`
  const times = `${(p99 / alone.p99).toFixed(2)} × alone`
  console.log(`${what.padEnd(40)} p50 ${ms(p50).padStart(10)}  p99 ${ms(p99).padStart(10)} (${times})  most ${ms(most)}  of ${passes}`)
}
