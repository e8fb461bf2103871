import { jetstreamManager } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import type { Bus } from '@passover/bus'
import { readPresence } from '@passover/operator'
import { PRESENCE_MAX_AGE_MS, PRESENCE_MAX_BYTES, PRESENCE_PLACES, type PresenceRecord, presenceRecord } from '@passover/schemas'
import type { WorkerEvent } from '@passover/sdk'
import { describe, expect, test } from 'vitest'
import { AgentWorld } from '../../support/dispatcher/agents.js'
import { Installation } from '../../support/dispatcher/installation.js'
import { until } from '../../support/processes/until.js'

/** Half of what installations have, so that the test waits less: a worker says every 5 s that it is up, and may be late by as much. */
const AGE_MS = PRESENCE_MAX_AGE_MS / 2
const NS_PER_MS = 1_000_000
/** Longer than three times the age after which a worker is forgotten. */
const GONE_MS = 3.5 * AGE_MS

async function present(bus: Bus): Promise<PresenceRecord[]> {
  const table = await bus.table('presence', presenceRecord)
  const found = new Map<string, PresenceRecord>()
  for await (const { key, value } of table.entries()) found.set(key, value)
  return [...found.values()]
}

/** Shortens the age of the bucket, having looked what it is. */
async function shortenAge(servers: string | string[]): Promise<void> {
  const nc = await connect({ servers })
  const { streams } = await jetstreamManager(nc)
  const { config } = await streams.info('KV_presence')
  expect(config.max_age).toBe(PRESENCE_MAX_AGE_MS * NS_PER_MS)
  const max_age = AGE_MS * NS_PER_MS
  await streams.update('KV_presence', { max_age, duplicate_window: Math.min(config.duplicate_window, max_age) })
  await nc.close()
}

describe.concurrent('the presence of workers', () => {
  test('says how many are up and how busy, and goes at once when one drains', async () => {
    await using agents = await AgentWorld.start({ audit: false })
    const { bus } = agents.world
    const [one, two, alice] = [await agents.agent('audit'), await agents.agent('audit'), await agents.agent('alice')]
    let finish: () => void = () => undefined
    const held = new Promise<string>((resolve) => {
      finish = () => resolve('done')
    })
    const worker = await one.onPass(() => held, { concurrency: 3 })
    await until(async () => (await present(bus)).length === 1, { what: 'one is up' })
    const second = await two.onPass(() => held, { concurrency: 5 })
    await until(async () => (await present(bus)).length === 2, { what: 'both are up' })
    const results = Array.from({ length: 4 }, () =>
      alice.passOver({ subagent: 'audit', reason: 'x', work_context: { objective: 'x' } }).result(),
    )
    const busy = await until(
      async () => {
        const found = await present(bus)
        return found.reduce((sum, { running }) => sum + running, 0) === 4 ? found : undefined
      },
      { what: 'four run' },
    )
    expect(busy.map(({ agent, concurrency }) => `${agent} ${concurrency}`).sort()).toEqual(['audit 3', 'audit 5'])
    expect(new Set(busy.map(({ instance }) => instance)).size).toBe(2)
    // An agent that writes without end changes nothing about others: it has a bounded number of places, however it names its keys.
    const junk = { agent: 'mallory', host: 'h'.repeat(256), pid: 1, concurrency: 1, running: 0, started_at: 1, seen_at: bus.now() }
    const table = await bus.table('presence', presenceRecord)
    await Promise.all(Array.from({ length: 8_000 }, (_, n) => table.put(`mallory.${n}`, { ...junk, instance: String(n) })))
    const up = await readPresence(bus)
    expect(up.get('audit')).toEqual({ instances: 2, running: 4, places: 8 })
    expect(up.get('mallory')?.instances).toBe(PRESENCE_PLACES)
    expect((await readPresence(bus, 'mallory')).get('mallory')?.instances).toBe(PRESENCE_PLACES)
    expect((await table.extent()).entries).toBe(PRESENCE_PLACES + 2)
    // Four such agents fit in the smallest bucket.
    expect(4 * PRESENCE_PLACES * PRESENCE_MAX_BYTES).toBeLessThanOrEqual(4 * 1_024 * 1_024)
    await Promise.all(Array.from({ length: 8_000 }, (_, n) => table.delete(`mallory.${n}`)))
    finish()
    await Promise.all(results)
    await worker.drain()
    expect((await present(bus)).map(({ concurrency }) => concurrency)).toEqual([5])
    await second.drain()
    expect(await present(bus)).toEqual([])
  })

  test('a worker that is killed is gone within the age of the bucket, one that is there stays', async () => {
    await using installation = await Installation.start({})
    await shortenAge(installation.world.nats.servers)
    const killed = await installation.worker('audit', 'killed')
    await installation.worker('scout', 'stays')
    const { bus } = installation.world
    await until(async () => (await present(bus)).length === 2, { what: 'both are up' })
    const before = await present(bus)
    expect(before.find(({ agent }) => agent === 'audit')).toMatchObject({ pid: killed.pid, running: 0, concurrency: 8 })
    await killed.kill()
    const left = await until(
      async () => {
        const found = await present(bus)
        return found.length === 1 ? found : undefined
      },
      { what: 'the killed one is gone', deadline_ms: GONE_MS, every_ms: 500 },
    )
    expect(left).toMatchObject([{ agent: 'scout' }])
    // It has said so again meanwhile.
    expect(left[0]!.seen_at).toBeGreaterThan(before.find(({ agent }) => agent === 'scout')!.seen_at)
  })

  test('never harms the work: a worker that cannot say that it is up works, and tells it once', async () => {
    await using agents = await AgentWorld.start({ audit: false, dispatchers: [{ stores_ms: 600_000 }] })
    const nc = await connect({ servers: agents.world.nats.servers })
    await (await jetstreamManager(nc)).streams.delete('KV_presence')
    await nc.close()
    const [audit, alice] = [await agents.agent('audit'), await agents.agent('alice')]
    const events: WorkerEvent[] = []
    const worker = await audit.onPass(() => ({ status: 'completed', artifacts: [] }), { log: (event) => events.push(event) })
    const ask = () => alice.passOver({ subagent: 'audit', reason: 'x', work_context: { objective: 'x' } }).result()
    expect((await ask()).status).toBe('completed')
    const unseen = () => events.filter(({ kind }) => kind === 'unseen')
    await until(() => unseen().length > 0, { what: 'it tells', deadline_ms: 30_000 })
    for (let n = 0; n < 20; n++) await ask()
    expect(unseen()).toHaveLength(1)
    await worker.drain()
  })
})

// Beside no other test, which would have timers of its own.
test('200 workers that start and stop leave nothing behind', async () => {
  await using agents = await AgentWorld.start({ audit: false })
  const { nats, bus } = agents.world
  const audit = await agents.agent('audit')
  const round = async () => (await audit.onPass(() => undefined)).drain()
  await round()
  const before = await nats.census()
  const timers = process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length
  for (let n = 0; n < 20; n++) await Promise.all(Array.from({ length: 10 }, round))
  await nats.untilNothingLeft(before)
  expect(await present(bus)).toEqual([])
  expect(process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length).toBeLessThanOrEqual(timers + 5)
})
