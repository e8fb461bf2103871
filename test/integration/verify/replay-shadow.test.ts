import { randomBytes } from 'node:crypto'
import { jetstreamManager } from '@nats-io/jetstream'
import { connect as connectClient } from '@nats-io/transport-node'
import { startAudit } from '@passover/audit'
import { type Bus, openBus } from '@passover/bus'
import { replayInto } from '@passover/cli'
import { startDispatcher } from '@passover/dispatcher'
import { findPass } from '@passover/operator'
import { createAgent } from '@passover/sdk/internal'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { registerAgent } from '../../support/builders/register.js'
import { AgentWorld } from '../../support/dispatcher/agents.js'
import { clockOf, random, SILENT } from '../../support/dispatcher/dispatcher.js'

const PREFIX = 'shadow'
/** What an installation writes of itself, whoever asks for anything. */
const OWN = /(presence|snapshots|acknowledged)$/

let world: AgentWorld
let ops: Bus
const opened: AsyncDisposable[] = []

async function shadowBus(identity: string): Promise<Bus> {
  const bus = await openBus({ servers: world.world.nats.servers, identity, prefix: PREFIX, onError: () => undefined })
  opened.unshift(bus)
  return bus
}

beforeAll(async () => {
  world = await AgentWorld.start({ dispatchers: [{}], audit: { open: true } })
  ops = await openBus({ servers: world.world.nats.servers, identity: 'ops', onError: () => undefined })
})
afterAll(async () => {
  for (const one of opened) await one[Symbol.asyncDispose]()
  await ops?.[Symbol.asyncDispose]()
  await world?.[Symbol.asyncDispose]()
})

/** Everything that runs, once more under the prefix: a dispatcher, an audit, and an agent that has another version of its handler. */
async function shadowInstallation(): Promise<string[]> {
  const system = await shadowBus('passover')
  await system.ensureTopology()
  for (const name of ['alice', 'audit']) {
    await registerAgent(system, { name, roles: { originates: 'always', subagent: true }, registered_by: 'ops', updated_at: 1 })
    await system.ensureAgent(name, { subagent: true, max_attempts: 3, lease_ms: 5_000 })
  }
  const deps = { clock: clockOf(system), random: { bytes: (n: number) => randomBytes(n) }, log: SILENT }
  opened.unshift(await startDispatcher({ ...deps, bus: await shadowBus('passover'), random }, {}))
  opened.unshift(await startAudit({ ...deps, bus: await shadowBus('passover') }, { open: true }))
  const bus = await shadowBus('audit')
  const agent = createAgent({ bus, clock: clockOf(bus), random: deps.random }, { directory: '/project', sessionId: 'of-the-shadow' })
  opened.unshift(agent)
  const seen: string[] = []
  await agent.onPass((pass) => {
    seen.push(`${pass.context.objective} ${pass.context.files[0]?.content?.length}`)
    if (pass.context.objective === 'now it fails') throw new Error('the new version fails here')
    return 'done by the new version'
  })
  return seen
}

/** Of every bucket of the live namespace how many messages it ever stored, and of its stream the subjects, but of what agents acknowledge. */
async function stored(): Promise<Record<string, unknown>> {
  await using nc = Object.assign(await connectClient({ servers: world.world.nats.servers }), {
    async [Symbol.asyncDispose]() {
      await nc.close()
    },
  })
  const found: Record<string, unknown> = {}
  for await (const { config, state } of (await jetstreamManager(nc)).streams.list())
    if (!config.name.includes(PREFIX) && !OWN.test(config.name)) found[config.name] = state.last_seq
  const subjects: string[] = []
  await using reader = await ops.follow({}, ({ subject }) => {
    if (ops.subjects.parse(subject).kind !== 'acknowledged') subjects.push(subject)
  })
  await reader.caughtUp
  return { ...found, [ops.subjects.stream]: subjects }
}

describe('passes that are asked for again in a shadow namespace', () => {
  it('are worked by the agents there, large parts and all, compared with what became of them, and nothing of the live namespace is touched', async () => {
    const worker = await world.agent('audit')
    const lived: string[] = []
    await worker.onPass((pass) => {
      lived.push(pass.id)
      return 'done by the old version'
    })
    const alice = await world.agent('alice')
    const large = 'x'.repeat(700_000)
    const file = { path: 'large.txt', content: large, metadata: { size_bytes: large.length, last_modified: 1, is_binary: false } }
    const ids: string[] = []
    for (const objective of ['it works', 'now it fails']) {
      const handle = alice.passOver({ subagent: 'audit', reason: 'regression', work_context: { objective, files: [file] } })
      ids.push(handle.id)
      await handle.result()
    }
    const passes = await Promise.all(ids.map((id) => findPass(ops, { id }, { history: true })))
    const seen = await shadowInstallation()
    // What was asked for in the live namespace has its records by then.
    await world.audits[0]?.settled()
    const before = await stored()
    const shown: { before: string; after?: string; again: string }[][] = []
    const { servers } = world.world.nats
    const context = {
      terminal: { interactive: false, show: (rows: never) => shown.push(rows) },
      server: () => ({ url: Array.isArray(servers) ? servers[0] : servers }),
    }
    expect(await replayInto(context as never, { bus: ops, passes, toPrefix: PREFIX, yes: true, wait: 30_000 })).toBe(0)
    expect(seen.sort()).toEqual([`it works ${large.length}`, `now it fails ${large.length}`])
    const shadow = await shadowBus('ops')
    const outcomes = await Promise.all(
      (shown[0] ?? []).map(async ({ again }) => (await findPass(shadow, { id: again }, { history: true })).row.code ?? 'done'),
    )
    expect(outcomes).toEqual(['done', 'E011'])
    expect(lived).toEqual(ids)
    expect(await stored()).toEqual(before)
  })
})
