import { DISPATCHER, PolicyStore } from '@passover/bus'
import { agentRecord, passOverPreferences } from '@passover/schemas'
import { byHand, checkOf, deleteConsumers, deleteStreams, untilReady } from '../support/attacks/broken-topology.js'
import { AgentWorld } from '../support/dispatcher/agents.js'
import { publishPolicy } from '../support/dispatcher/policies.js'
import { until } from '../support/processes/until.js'
import { median } from './pipelines/pipeline.js'

/**
 * `npm run bench -- --soon`: how soon an installation follows and mends itself, the middle of several and the longest, with what is
 * promised. Three dispatchers, an audit, an originator and a worker, each on a connection of its own. `--rounds N` (default 5). What is mended counts
 * once it is there, everybody is ready, and a pass that was begun after it has come back.
 */
const ROUNDS = given('rounds', 5)
const PATIENT_MS = 120_000
const EVERY_MS = 5
const FOLLOW_MS = 5_000
const MEND_MS = 10_000
const SUBAGENT = 'audit'

function given(name: string, otherwise: number): number {
  const at = process.argv.indexOf(`--${name}`)
  return (at > 0 && Number(process.argv[at + 1])) || otherwise
}

await using made = await AgentWorld.start({ dispatchers: [{}, {}, {}] })
const { world } = made
const { servers, node } = world.nats
const [alice, audit] = [await made.agent('alice'), await made.agent(SUBAGENT)]
await audit.onPass(() => 'done', { log: () => undefined })
const policy = await PolicyStore.open(world.bus)
const all = [...world.dispatchers, ...made.audits, alice, audit]
await well()

await row('policy published → the last of three dispatchers follows', FOLLOW_MS, async (round) => {
  const document = passOverPreferences.parse({ defaults: { timeout_ms: 60_000 + round } })
  const { version } = await publishPolicy(world, document)
  const published = performance.now()
  const text = `version ${version} is in force`
  await soon('all follow', () => world.dispatchers.every((one) => checkOf(one, 'policy').what === text))
  return performance.now() - published
})
await row('server killed → it serves → everybody is ready', MEND_MS, async () => {
  await node.kill()
  await node.restart()
  return await well()
})
await row('server stopped in order → it serves → everybody is ready', MEND_MS, async () => {
  await node.stop()
  await node.restart()
  return await well()
})
await row('the dispatchers’ consumer deleted → mended', MEND_MS, async () => {
  const since = performance.now()
  await deleteConsumers(servers, (name) => name === DISPATCHER)
  await soon('it is there', async () => (await consumers()).includes(DISPATCHER))
  await well()
  return performance.now() - since
})
await row('a worker’s consumers deleted → mended', MEND_MS, async () => {
  const since = performance.now()
  const gone = await deleteConsumers(servers, (name) => name.startsWith(`work_${SUBAGENT}`))
  await soon('they are there', async () => {
    const there = await consumers()
    return gone.every((name) => there.includes(name))
  })
  await well()
  return performance.now() - since
})
await row('the bucket of agents deleted → mended, with what it held', MEND_MS, async () => {
  const since = performance.now()
  await deleteStreams(servers, 'KV_agents')
  await soon('the agent is back', async () => (await (await world.bus.table('agents', agentRecord)).get(SUBAGENT)) !== undefined)
  await well()
  return performance.now() - since
})
await row('the bucket of policy deleted → mended, with what it held', MEND_MS, async () => {
  const since = performance.now()
  await deleteStreams(servers, 'KV_policy')
  await soon('it is in force again', async () => {
    const stand = await policy.stand()
    return stand.kind === 'valid' && stand.value.version === ROUNDS
  })
  await well()
  return performance.now() - since
})

/** Everybody is ready, and passes come back: since when it was asked, ms. */
async function well(): Promise<number> {
  const since = performance.now()
  await untilReady(all, PATIENT_MS)
  const { status } = await alice.passOver({ subagent: SUBAGENT, reason: 'r', timeout_ms: PATIENT_MS, work_context: { objective: 'o' } })
  if (status !== 'completed') throw new Error(`a pass ended as ${status}`)
  return performance.now() - since
}

function consumers(): Promise<string[]> {
  return byHand(servers, async (manager) => {
    const names: string[] = []
    for await (const { name } of manager.consumers.list('PASSOVER')) names.push(name)
    return names
  })
}

async function soon(what: string, ask: () => boolean | Promise<boolean>): Promise<void> {
  await until(ask, { what, deadline_ms: PATIENT_MS, every_ms: EVERY_MS })
}

async function row(what: string, goal: number, measure: (round: number) => Promise<number>): Promise<void> {
  const found: number[] = []
  for (let round = 1; round <= ROUNDS; round += 1) found.push(await measure(round))
  const told = (ms: number) => `${ms.toFixed(0)} ms`.padStart(8)
  console.log(
    `${what.padEnd(62)} ${told(median(found))}  longest ${told(Math.max(...found))}  of ${ROUNDS}; goal ${goal / 1_000} s${median(found) <= goal ? '' : ': NOT REACHED'}`,
  )
}
