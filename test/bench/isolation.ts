import { setPriority } from 'node:os'
import { BUILDER, CHECKER } from '@passover/chaos'
import { agentRecord } from '@passover/schemas'
import { type Agent, connect } from '@passover/sdk'
import { Field } from '../chaos/field.js'

/**
 * A quiet pair's passes, one every EVERY_MS whatever became of those before, alone and beside trouble on other subjects: poison, a flood, a
 * dead subagent with a backlog. `npm run bench -- --isolation`. The flood's size by PASSOVER_FLOOD.
 *
 * What makes the trouble is on machines of its own in earnest; here it runs at the lowest priority, so that what the quiet pair shares with
 * it is the server and the services, and not its own processor.
 */
const FLOOD = Number(process.env.PASSOVER_FLOOD ?? 20_000)
const IN_FLIGHT = Number(process.env.PASSOVER_FLOOD_IN_FLIGHT ?? 64)
const BACKLOG = 10_000
const EVERY_MS = 20
const PASSES = 500
const WARM = 1_500
const DEAD = 'dead'
const TIMEOUT_MS = 300_000
const POISON_EVERY_MS = 5
const ELSEWHERE = 19

interface Figures {
  p50: number
  p99: number
  most: number
  passes: number
}

await using field = await Field.start({ dispatchers: 1, workers: 1, agents: [CHECKER], concurrency: 8 })
const noisy = field.player('noisy worker', 'worker', { agents: [BUILDER], concurrency: 16 })
await noisy.ready()
setPriority(noisy.process.pid, ELSEWHERE)
const table = await field.bus.table('agents', agentRecord)
const roles = { originates: 'within_a_pass' as const, subagent: true }
await table.put(DEAD, { name: DEAD, roles, registered_by: 'bench', updated_at: field.bus.now() })
await field.bus.ensureAgent(DEAD, { subagent: true, max_attempts: 3, lease_ms: 5_000 })
await using alice = await connect({ agent: 'alice', servers: field.nats.servers })

await warm()
const alone = await measure(once(PASSES))
row('alone', alone)
row('beside poison', await besidePoison())
row('beside a flood', await besideFlood())
row('beside a dead subagent', await besideDead())
row('alone again', await measure(once(PASSES)))

/** Malformed requests and a handler that throws, all the time. */
async function besidePoison(): Promise<Figures> {
  const { subjects } = field.bus
  const throwing = JSON.stringify({ ms: 0, throws: true })
  const timer = setInterval(() => {
    void field.bus.publish({ subject: subjects.request(BUILDER, 'mallory'), data: new Uint8Array([0xc1, 0, 0xff]) })
    alice.passOver({ subagent: BUILDER, reason: 'poison', work_context: { objective: throwing } }).catch(() => undefined)
  }, POISON_EVERY_MS)
  const figures = await measure(once(PASSES))
  clearInterval(timer)
  return figures
}

/** A backlog that nobody works on. */
async function besideDead(): Promise<Figures> {
  await burst(DEAD, BACKLOG)
  await untilDispatched(DEAD, BACKLOG)
  return await measure(once(PASSES))
}

/** From the first of the flood until the last of it is done. */
async function besideFlood(): Promise<Figures> {
  let over = false
  const flooding = burst(BUILDER, FLOOD)
    .then(() => field.untilIdle([BUILDER], TIMEOUT_MS))
    .then(() => {
      over = true
    })
  const figures = await measure(() => !over)
  await flooding
  return figures
}

async function burst(to: string, passes: number): Promise<void> {
  const options = { agent: 'mallory', to, passes, timeout_ms: TIMEOUT_MS, padding: 200, in_flight: IN_FLIGHT }
  const publisher = field.player(`burst to ${to}`, 'burst', options)
  setPriority(publisher.process.pid, ELSEWHERE)
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

/** What was compiled once is faster. */
async function warm(): Promise<void> {
  for (let n = 0; n < WARM; n += 1) await quiet(alice)
}

function quiet(agent: Agent): Promise<unknown> {
  const context = { objective: JSON.stringify({ ms: 0 }) }
  return agent.passOver({ subagent: CHECKER, reason: 'quiet', timeout_ms: TIMEOUT_MS, work_context: context })
}

/** One every EVERY_MS, so that one that takes long hides none of those that came after it. */
async function measure(more: (begun: number) => boolean): Promise<Figures> {
  const times: number[] = []
  const under: Promise<void>[] = []
  const since = performance.now()
  for (let n = 0; more(n); n += 1) {
    await new Promise((next) => setTimeout(next, since + n * EVERY_MS - performance.now()))
    const begun = performance.now()
    under.push(quiet(alice).then(() => void times.push(performance.now() - begun)))
  }
  await Promise.all(under)
  times.sort((a, b) => a - b)
  const at = (share: number) => times[Math.min(times.length - 1, Math.floor(times.length * share))] ?? Number.NaN
  return { p50: at(0.5), p99: at(0.99), most: at(1), passes: times.length }
}

function row(what: string, { p50, p99, most, passes }: Figures): void {
  const ms = (value: number) => `${value.toFixed(1)} ms`
  const times = `${(p99 / alone.p99).toFixed(2)} × alone`
  console.log(`${what.padEnd(40)} p50 ${ms(p50).padStart(10)}  p99 ${ms(p99).padStart(10)} (${times})  most ${ms(most)}  of ${passes}`)
}
