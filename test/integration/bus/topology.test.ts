import { jetstreamManager } from '@nats-io/jetstream'
import { connect, headers } from '@nats-io/transport-node'
import { deliveriesOf, TopologyError } from '@passover/bus'
import { PRESENCE_MAX_BYTES } from '@passover/schemas'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { busOn, freshKey } from '../../support/fixtures/bus.js'
import { until } from '../../support/processes/until.js'
import { type NatsFixture, natsFixture } from '../../support/servers/nats.js'

describe('the topology', () => {
  let nats: NatsFixture
  beforeAll(async () => {
    nats = await natsFixture()
  })
  afterAll(() => nats[Symbol.asyncDispose]())

  test('is made once by many at once, and is then as it should be', async () => {
    const buses = await Promise.all([1, 2, 3].map((n) => busOn(nats, { identity: `d${n}` })))
    expect((await buses[0]!.inspect()).differences).toContain('stream PASSOVER does not exist')
    await Promise.all(buses.map((bus) => bus.ensureTopology()))
    await Promise.all(buses.map((bus) => bus.ensureAgent('audit', { subagent: true, max_attempts: 3, lease_ms: 5_000 })))
    const looked = await buses[0]!.inspect()
    expect(looked.differences).toEqual([])
    expect(looked.consumers.sort()).toEqual([
      'dispatcher',
      'dispatcher_decisions',
      'work_audit_high',
      'work_audit_low',
      'work_audit_medium',
    ])
    expect(looked.buckets.map(({ kind, name }) => `${kind} ${name}`)).toEqual(
      expect.arrayContaining(['kv agents', 'kv passes', 'object parts_audit', 'object archive']),
    )
    expect(looked.stream).toMatchObject({ max_age_ms: 0, discard: 'new', allow_direct: true, republish: true })
    for (const bus of buses) await bus[Symbol.asyncDispose]()
  })

  test('a work consumer follows the lease and attempts in force and keeps its place', async () => {
    await using bus = await busOn(nats)
    await bus.ensureTopology()
    await bus.ensureAgent('scout', { subagent: true, max_attempts: 3, lease_ms: 5_000, from: 1 })
    const [before] = await bus.workload('scout')
    await bus.ensureAgent('scout', { subagent: true, max_attempts: 2, lease_ms: 1_000, from: 9 })
    const [after] = await bus.workload('scout')
    expect(after?.created).toBe(before?.created)
    const nc = await connect({ servers: nats.servers })
    const { consumers } = await jetstreamManager(nc)
    const high = async () => (await consumers.info('PASSOVER', 'work_scout_high')).config
    expect(await high()).toMatchObject({ ack_wait: 1_000_000_000, max_deliver: deliveriesOf(2) })
    await consumers.delete('PASSOVER', 'work_scout_low')
    await bus.ensureAgent('scout', { subagent: true, max_attempts: 4, lease_ms: 2_000, lost: 'leave' })
    expect(await high()).toMatchObject({ ack_wait: 2_000_000_000, max_deliver: deliveriesOf(4) })
    expect((await bus.workload('scout')).map(({ priority }) => priority)).toEqual(['high', 'medium'])
    await nc.close()
    await bus.ensureAgent('alice', { subagent: false, max_attempts: 3, lease_ms: 5_000 })
    expect(await bus.workload('alice')).toEqual([])
  })

  test('an agent cannot remove the presence of others with a rollup', async () => {
    const nc = await connect({ servers: nats.servers })
    await using bus = await busOn(nats, { prefix: 'rollup' })
    await bus.ensureTopology()
    await nc.request('$KV.rollup_presence.scout.0abcdef', 'up')
    const all = headers()
    all.set('Nats-Rollup', 'all')
    const answer = await nc.request('$KV.rollup_presence.mallory.0abcdef', 'up', { headers: all, timeout: 2_000 })
    expect(answer.string()).toContain('rollup not permitted')
    const jsm = await jetstreamManager(nc)
    expect((await jsm.streams.info('KV_rollup_presence')).state.messages).toBe(1)
    await nc.close()
  })

  test('an older installation, whose presence and budgets never went, is brought up to date', async () => {
    const nc = await connect({ servers: nats.servers })
    const jsm = await jetstreamManager(nc)
    await using bus = await busOn(nats, { prefix: 'older' })
    await bus.ensureTopology()
    for (const name of ['KV_older_presence', 'KV_older_budgets']) {
      await jsm.streams.update(name, { ...(await jsm.streams.info(name)).config, max_age: 0, duplicate_window: 120_000_000_000 })
    }
    expect((await bus.inspect()).differences).toContain('stream KV_older_presence: max_age is 0, expected 20000000000')
    const presence = (await jsm.streams.info('KV_older_presence')).config
    const { subject_transform: _, ...before } = presence
    await jsm.streams.update('KV_older_presence', { ...before, allow_rollup_hdrs: true, max_msg_size: -1 } as typeof presence)
    const streams = async () => (await jsm.streams.list().next()).filter(({ config }) => config.name.includes('older'))
    await bus.ensureAgent('scout', { subagent: false, max_attempts: 3, lease_ms: 5_000 })
    for (const { config } of await streams()) {
      const duplicate_window = Math.min(120_000_000_000, config.max_age || Number.POSITIVE_INFINITY)
      await jsm.streams.update(config.name, { ...config, duplicate_window })
    }
    await bus.ensureTopology()
    await bus.ensureAgent('scout', { subagent: false, max_attempts: 3, lease_ms: 5_000 })
    expect((await bus.inspect()).differences).toEqual([])
    // The server keeps the ids of messages in memory for so long, of whatever size an agent makes them.
    const windows = (await streams()).map(({ config }) => [config.name, config.duplicate_window])
    expect(windows.length).toBeGreaterThan(10)
    expect(windows.filter(([, window]) => window !== 100_000_000)).toEqual([])
    expect((await jsm.streams.info('KV_older_presence')).config).toMatchObject({
      max_msg_size: PRESENCE_MAX_BYTES,
      subject_transform: presence.subject_transform,
    })
    const large = bus.publish({ subject: '$KV.older_presence.scout.x', data: new Uint8Array(PRESENCE_MAX_BYTES + 1) })
    expect(await large).toMatchObject({ kind: 'refused' })
    expect((await jsm.streams.info('KV_older_presence')).config.allow_rollup_hdrs).toBe(false)
    expect((await jsm.streams.info('KV_older_budgets')).config.max_age).toBe(172_800_000_000_000)
    await nc.close()
  })

  test('made differently by someone else is refused field by field, and left as it is', async () => {
    const nc = await connect({ servers: nats.servers })
    const jsm = await jetstreamManager(nc)
    await jsm.streams.add({ name: 'THEIRS', subjects: ['theirs.>'], max_age: 60_000_000_000, discard: 'old' })
    await using bus = await busOn(nats, { stream: 'THEIRS', prefix: 'x' })
    const error = await bus.ensureTopology().catch((failure: unknown) => failure)
    expect(error).toBeInstanceOf(TopologyError)
    const fields = (error as TopologyError).differences.map(({ field }) => field)
    expect(fields).toEqual(expect.arrayContaining(['subjects', 'discard', 'max_age', 'republish']))
    expect((error as TopologyError).message).toMatch(/max_age is 60000000000, expected 0/)
    expect((error as TopologyError).hint).toContain('Nothing was changed')
    expect((await jsm.streams.info('THEIRS')).config.subjects).toEqual(['theirs.>'])
    await nc.close()
  })

  test('tells of a consumer with another filter', async () => {
    await using bus = await busOn(nats, { prefix: 'y' })
    await bus.ensureTopology()
    const nc = await connect({ servers: nats.servers })
    const jsm = await jetstreamManager(nc)
    await jsm.consumers.add('PASSOVER_y', {
      durable_name: 'work_evil_high',
      ack_policy: 'explicit',
      filter_subject: 'y.work.*.other.*.high',
    })
    await expect(bus.ensureAgent('evil', { subagent: true, max_attempts: 3, lease_ms: 5_000 })).rejects.toMatchObject({
      name: 'TopologyError',
      differences: [{ field: 'filter_subjects' }],
    })
    await nc.close()
  })

  test('says byte limit, replicas and compression only when asked, and then insists', async () => {
    await using bus = await busOn(nats, { prefix: 'z' })
    await bus.ensureTopology({ max_bytes: 50_000_000, compression: true })
    await bus.ensureTopology()
    await expect(bus.ensureTopology({ max_bytes: 60_000_000 })).rejects.toMatchObject({ differences: [{ field: 'max_bytes' }] })
  })

  test('keeps the advisory of a delivery that the server gave up', async () => {
    await using bus = await busOn(nats, { prefix: 'w' })
    await bus.ensureTopology()
    await bus.ensureAgent('audit', { subagent: true, max_attempts: 1, lease_ms: 300 })
    const key = freshKey()
    await bus.publish({ subject: bus.subjects.work(key, 'high') })
    const told: string[] = []
    await using _reader = await bus.follow(
      { filters: [bus.subjects.advisories()] },
      (_, fact) => void (fact.type === 'advisory' && told.push(fact.consumer)),
    )
    await using source = bus.work('audit', 'high')
    await source.pull({ batch: 1, expires_ms: 30_000 }, () => undefined)
    await until(() => source.pull({ batch: 1, expires_ms: 500 }, () => undefined).then(() => told.length > 0), { what: 'it is told' })
    expect(told).toEqual(['work_audit_high'])
  })
})
