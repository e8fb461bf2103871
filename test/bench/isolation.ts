import { BUILDER, CHECKER } from '@passover/chaos'
import { connect } from '@passover/sdk'
import { Field } from '../chaos/field.js'
import { registerAgent } from '../support/builders/register.js'
import { untilTaken } from '../support/dispatcher/durable-returns.js'
import { cpuOf } from './measure/cpu-usage.js'
import { whereSlow } from './measure/slow-calls.js'
import { troubleOf } from './measure/trouble.js'
import { type Figures, figuresOf, QuietPair } from './pipelines/quiet-pair.js'

/**
 * What trouble on other subjects costs a quiet pair, whose passes begin at a steady pace: `npm run bench -- --isolation [paced] [full] [dead]`, all
 * when none is named; `flood` is of `paced` the flood alone.
 *
 * - `paced`: the trouble leaves processor time free. Poison, PASSOVER_POISON a second; then a flood, PASSOVER_FLOOD_RATE a second to a subagent that serves
 *   about 160, behind PASSOVER_BACKLOG that wait already. Compared with no trouble at all, measured before each of the two: a 99th percentile
 *   of few passes is one of its own worst moments, so that one of them alone says too little.
 * - `full`: PASSOVER_FLOOD requests as fast as they can be stored, so that no processor is idle. Compared with as many of twenty other pairs: what they
 *   cost everybody, a flood of one pair may cost as well, but not more.
 * - `dead`: a backlog of a subagent that nobody works as.
 *
 * What makes the trouble, and the subagent that it is for, are on machines of their own in earnest; here they run at the lowest priority, so that
 * what the quiet pair shares with them is the server and the services, and not their own processor. Each row says how much trouble there was.
 */
const number = (name: string, otherwise: number) => Number(process.env[name] ?? otherwise)
const FLOOD = number('PASSOVER_FLOOD', 20_000)
const FLOOD_RATE = number('PASSOVER_FLOOD_RATE', 500)
const POISON_RATE = number('PASSOVER_POISON', 200)
const BACKLOG = number('PASSOVER_BACKLOG', 20_000)
const IN_FLIGHT = number('PASSOVER_FLOOD_IN_FLIGHT', 64)
const PASSES = number('PASSOVER_QUIET', 1_500)
const OTHERS = 20
const DEAD = 'dead'
const SLOW_MS = 100
const ENDLESS = 1_000_000
const TIMEOUT_MS = 300_000

const PARTS = { paced, flood, full, dead }
const ALL = ['paced', 'full', 'dead']

const given = Object.keys(PARTS).filter((part) => process.argv.includes(part))
const named = given.length > 0 ? given : ALL
await using field = await Field.start({ dispatchers: 1, workers: 1, agents: [CHECKER], concurrency: 8 })
const noisy = field.player('noisy worker', 'worker', { agents: [BUILDER], concurrency: 16, priority: 'lowest' })
await noisy.ready()
await using alice = await connect({ agent: 'alice', servers: field.nats.servers })
const QUIET = { originator: 'alice', subagent: CHECKER }
const pair = new QuietPair(alice, { to: QUIET.subagent, timeout_ms: TIMEOUT_MS })
await pair.warm()
for (const [name, part] of Object.entries(PARTS)) if (named.includes(name)) await part()

async function paced(): Promise<void> {
  const before = await row('alone', undefined, () => pair.measure(once))
  const poison = await row(`beside poison, ${POISON_RATE}/s`, before, () =>
    beside({ passes: ENDLESS, per_second: POISON_RATE, in_flight: POISON_RATE, malformed: true, plan: { ms: 0, throws: true } }),
  )
  const again = await row('alone again', undefined, () => pair.measure(once))
  const flooded = await behindBacklog(again)
  const alone = figuresOf([...before.passes, ...again.passes])
  console.log(`p99 alone, of both: ${ms(alone.p99)}; beside poison ${times(poison, alone)}, beside a flood ${times(flooded, alone)}`)
}

async function flood(): Promise<void> {
  const before = await row('alone', undefined, () => pair.measure(once))
  const again = await row('alone again', undefined, () => pair.measure(once))
  const flooded = await behindBacklog(again)
  const alone = figuresOf([...before.passes, ...again.passes])
  console.log(`p99 alone, of both: ${ms(alone.p99)}; beside a flood ${times(flooded, alone)}`)
}

async function behindBacklog(control: Figures): Promise<Figures> {
  const slow = { ms: SLOW_MS }
  const { publisher } = await publish({ passes: BACKLOG, plan: slow })
  await publisher.process.heard('published', TIMEOUT_MS)
  await untilTaken(field.nats.servers, TIMEOUT_MS)
  return row(`beside a flood, ${FLOOD_RATE}/s, of which 160 are served`, control, () =>
    beside({ passes: ENDLESS, per_second: FLOOD_RATE, in_flight: FLOOD_RATE, plan: slow }),
  )
}

function times({ p99 }: Figures, alone: Figures): string {
  return `${(p99 / alone.p99).toFixed(2)} ×`
}

async function full(): Promise<void> {
  const alone = await row('alone', undefined, () => pair.measure(once))
  const spread = await row(`beside a flood of ${OTHERS} pairs`, alone, () => untilServed({ originators: OTHERS }))
  await row('beside the same of one pair', spread, () => untilServed({}))
  await row('beside poison of one pair', spread, () => untilServed({ malformed: true, plan: { ms: 0, throws: true } }))
}

async function dead(): Promise<void> {
  const roles = { originates: 'within_a_pass' as const, subagent: true }
  await registerAgent(field.bus, { name: DEAD, roles, registered_by: 'bench', updated_at: field.bus.now() })
  await field.bus.ensureAgent(DEAD, { subagent: true, max_attempts: 3, lease_ms: 5_000 })
  const alone = await row('alone', undefined, () => pair.measure(once))
  const { publisher } = await publish({ to: DEAD, passes: BACKLOG })
  await publisher.process.heard('published', TIMEOUT_MS)
  await untilTaken(field.nats.servers, TIMEOUT_MS)
  await row('beside a dead subagent', alone, () => pair.measure(once))
}

async function publish(options: object) {
  const publisher = field.player('trouble', 'burst', {
    agent: 'mallory',
    to: BUILDER,
    timeout_ms: TIMEOUT_MS,
    padding: 200,
    in_flight: IN_FLIGHT,
    priority: 'lowest',
    ...options,
  })
  await publisher.process.heard('begins', TIMEOUT_MS)
  return { publisher }
}

/** While it lasts, and it lasts as long as is measured. */
async function beside(options: object): Promise<Figures> {
  const { publisher } = await publish(options)
  const figures = await pair.measure(once)
  await publisher.process.kill()
  return figures
}

/** From the first of it until the last of it is done. */
async function untilServed(options: object): Promise<Figures> {
  let over = false
  const { publisher } = await publish({ passes: FLOOD, ...options })
  const served = publisher.process
    .heard('published', TIMEOUT_MS)
    .then(() => field.untilIdle([BUILDER], TIMEOUT_MS))
    .then(() => {
      over = true
    })
  const figures = await pair.measure(() => !over)
  await served
  return figures
}

function once(begun: number): boolean {
  return begun < PASSES
}

/** Measures, and prints it: how it compares, how much of the machine's processors was used meanwhile, and where the slowest waited. */
async function row(what: string, control: Figures | undefined, measure: () => Promise<Figures>): Promise<Figures> {
  const trouble = await troubleOf({ bus: field.bus, servers: field.nats.servers }, BUILDER)
  const busy = cpuOf()
  const figures = await measure()
  const { p50, p99, most, passes } = figures
  const { all, own, each } = busy()
  const told = await trouble()
  const compared = control ? ` (${times(figures, control)})` : ''
  console.log(
    `${what.padEnd(50)} p50 ${ms(p50).padStart(9)}  p99 ${ms(p99).padStart(9)}${compared.padEnd(10)}  most ${ms(most).padStart(9)}  of ${passes.length}; processors ${all} % (${own} % ours)`,
  )
  const slowest = await whereSlow(field.bus, QUIET, passes.slice(0, Math.ceil(passes.length / 100)))
  console.log(`  ${told}; ms of the slowest 1 %: ${slowest}; % of the processors: ${sharesOf(each)}`)
  return figures
}

function sharesOf(each: Map<number, number>): string {
  const names = new Map([[process.pid, 'alice'], ...field.names()])
  const shares = [...each].filter(([, share]) => share > 0).sort(([, a], [, b]) => b - a)
  return shares.map(([pid, share]) => `${names.get(pid) ?? 'server'} ${share}`).join(', ')
}

function ms(value: number): string {
  return `${value.toFixed(1)} ms`
}
