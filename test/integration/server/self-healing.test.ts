import { PolicyStore } from '@passover/bus'
import { agentRecord, passOverPreferences } from '@passover/schemas'
import { describe, expect, test } from 'vitest'
import { checkOf, deleteConsumers, deleteStreams, type Healthy, untilReady } from '../../support/attacks/broken-topology.js'
import { AgentWorld } from '../../support/dispatcher/agents.js'
import { until } from '../../support/processes/until.js'

/** Everybody of an installation, and a pass to see that it works. */
async function installation() {
  const world = await AgentWorld.start({ dispatchers: [{ consumers_ms: 500, missing_ms: 500 }] })
  const [alice, audit] = [await world.agent('alice'), await world.agent('audit')]
  const worker = await audit.onPass(() => 'done', { log: () => undefined })
  const passes = async () => (await alice.passOver({ subagent: 'audit', reason: 'r', work_context: { objective: 'o' } })).status
  expect(await passes()).toBe('completed')
  const { servers } = world.world.nats
  const all: Healthy[] = [...world.world.dispatchers, ...world.audits, alice, audit]
  await untilReady(all)
  const [dispatcher] = world.world.dispatchers
  const [record] = world.audits
  if (!dispatcher || !record) throw new Error('no dispatcher, no audit')
  return {
    world,
    servers,
    all,
    dispatcher,
    record,
    worker,
    passes,
    async [Symbol.asyncDispose]() {
      await world[Symbol.asyncDispose]()
    },
  }
}

describe('the server', () => {
  test.each(['restart', 'kill'] as const)(
    'after a %s everybody is ready again by itself, said so meanwhile, and passes go on',
    async (how) => {
      await using made = await installation()
      const { node } = made.world.world.nats
      await node[how === 'kill' ? 'kill' : 'stop']()
      await until(() => made.all.every((one) => !one.health().checks.every(({ state }) => state === 'ok')), { what: 'all say so' })
      expect(checkOf(made.dispatcher, 'connection')).toMatchObject({ state: 'recovering' })
      expect(made.dispatcher.health()).toMatchObject({ live: true, ready: false })
      await node.restart()
      await untilReady(made.all)
      expect(await made.passes()).toBe('completed')
    },
  )
})

describe('consumers that somebody deleted', () => {
  test('the requests’ durable is made anew from where all was acknowledged: nothing is asked twice', async () => {
    await using made = await installation()
    const { world } = made.world
    for (let n = 0; n < 20; n++) await made.passes()
    await world.untilAcknowledged()
    // It asks every 3 s up to where all is acknowledged, and is answered late where others use this machine.
    const before = made.dispatcher.stats().repeated
    await new Promise((asked) => setTimeout(asked, 7_000))
    await deleteConsumers(made.servers, (name) => name === 'dispatcher')
    await until(() => checkOf(made.dispatcher, 'admission').did?.times === 1, { what: 'it is made anew', deadline_ms: 90_000 })
    expect(checkOf(made.dispatcher, 'admission').did?.what).toMatch(/recreated the consumer dispatcher, from \d+/)
    expect(await made.passes()).toBe('completed')
    await world.untilAcknowledged()
    expect(made.dispatcher.stats().repeated).toBe(before)
    await untilReady(made.all)
  })

  // What its health says when the dispatcher takes longer: packages/sdk/src/worker/pull/work-puller.test.ts.
  test('a worker’s are made again by the dispatcher', async () => {
    await using made = await installation()
    const gone = await deleteConsumers(made.servers, (name) => name.startsWith('work_audit'))
    expect(gone).toHaveLength(3)
    expect(await made.passes()).toBe('completed')
    await untilReady(made.all)
  })

  test('ordered readers begin anew, wherever they read', async () => {
    await using made = await installation()
    const gone = await deleteConsumers(made.servers, (name) => name.startsWith('read_'))
    expect(gone.length).toBeGreaterThanOrEqual(2)
    expect(await made.passes()).toBe('completed')
    await made.record.settled()
    await untilReady(made.all)
  })
})

describe('buckets that somebody deleted', () => {
  test('agents and policy come back from their events, passes and inbox from the stream, all by themselves', async () => {
    await using made = await installation()
    const { bus } = made.world.world
    const maria = await made.world.agent('maria')
    const store = await PolicyStore.open(made.world.buses.get(maria)!)
    const document = passOverPreferences.parse({ defaults: { timeout_ms: 12_345 } })
    const published = await store.publish({ document, base: 0, reason: 'r' })
    if (published.kind !== 'published') throw new Error(published.kind)
    await made.record.settled()
    const records = async () => (await bus.inspect()).buckets.find(({ name }) => name === 'passes')?.messages
    const recorded = await records()
    expect(recorded).toBeGreaterThan(0)
    const created = await bus.stores()
    const wiped = [
      'KV_agents',
      'KV_policy',
      'KV_presence',
      'KV_budgets',
      'KV_passes',
      'KV_inbox',
      'KV_acknowledged',
      'KV_archive',
      'OBJ_archive',
      'OBJ_snapshots',
    ]
    await deleteStreams(made.servers, ...wiped)
    const since = performance.now()
    await until(async () => (await bus.stores()).size === created.size, { what: 'all buckets are there', deadline_ms: 90_000 })
    const table = await bus.table('agents', agentRecord)
    await until(async () => (await table.get('audit')) !== undefined, { what: 'the agent is back', deadline_ms: 90_000 })
    await until(async () => (await store.stand()).kind === 'valid', { what: 'the policy is back', deadline_ms: 90_000 })
    await until(async () => (await records()) === recorded, { what: 'the records are back', deadline_ms: 90_000 })
    console.log(`all buckets rebuilt after ${Math.round(performance.now() - since)} ms`)
    const stand = await store.stand()
    expect(stand).toMatchObject({ kind: 'valid', value: published.value })
    await untilReady(made.all)
    expect(await made.passes()).toBe('completed')
    expect(checkOf(made.dispatcher, 'buckets').did ?? checkOf(made.record, 'buckets').did).toBeDefined()
    expect(checkOf(made.record, 'reading').did?.what).toContain('restarted from the beginning')
  })

  test('the stream is not made anew in silence: all say that it is gone, and who starts is refused', async () => {
    await using made = await installation()
    await made.record.settled()
    await deleteStreams(made.servers, 'PASSOVER')
    await until(() => checkOf(made.dispatcher, 'stream').state === 'failed' && checkOf(made.record, 'stream').state === 'failed', {
      what: 'they say so',
    })
    // A restart would make nothing better.
    expect(made.dispatcher.health()).toMatchObject({ live: true, ready: false })
    await expect(made.world.world.bus.ensureTopology()).rejects.toThrow(/PASSOVER is missing.*KV_passes: \d+/)
    expect((await made.world.world.bus.stores()).has('stream')).toBe(false)
  })
})
