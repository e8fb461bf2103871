import { jetstreamManager } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import { decode, encode } from '@passover/bus'
import { HEADER } from '@passover/schemas'
import { describe, expect, test } from 'vitest'
import { sequenceOf, World } from '../../support/dispatcher/dispatcher.js'
import { until } from '../../support/processes/until.js'

/** Passes that ended, are open, are held, and a request that nobody admitted. */
async function populate(world: World) {
  const done = await world.ask()
  const journal = await world.state(done, 'open')
  sequenceOf(await world.step('return', done, { attempt: 1, guard: journal.last }))
  const open = await world.ask({ timeout_ms: 4_000, form: 'json' })
  await world.state(open, 'open')
  const held = await world.ask({ override: { hold_before_dispatch: true } })
  await world.state(held, 'held')
  return { done, open, held }
}

/** It writes one snapshot, when it is drained. */
const LAST_SNAPSHOT = { snapshot_ms: 600_000 }

async function names(world: World): Promise<string[]> {
  return (await world.bus.objects('snapshots')).list()
}

describe('a timekeeper that starts again', () => {
  test('goes on from its snapshot, and ends nothing twice', async () => {
    await using world = await World.start({ dispatchers: [LAST_SNAPSHOT] })
    await world.agent('audit')
    const { done, open, held } = await populate(world)
    await world.dispatchers[0]!.drain()
    expect(await names(world)).toHaveLength(1)
    const asked = await world.ask({ timeout_ms: 3_000 })
    // What stood before the snapshot is not read again: else this pass would be taken for an open one.
    const ended = await world.journal(done)
    if (ended.state !== 'done') throw new Error('not done')
    expect(await world.bus.journal.deleteMessage(ended.return.sequence)).toBe(true)
    const again = await world.dispatcher({ admission: false, look_after_ms: 200 })
    const end = await world.end(open)
    expect(end).toMatchObject({ error: { code: 'E010' }, content_type: 'application/json' })
    expect((await world.end(asked)).error?.code).toBe('E010')
    expect((await world.journal(held)).state).toBe('held')
    // Open, held and unanswered were known, and nothing else.
    await until(() => again.stats().ended === 2, { what: 'it has counted both' })
    expect(again.stats()).toMatchObject({ ended: 2, open: 1 })
  })

  test.each([
    [
      'none',
      async (world: World) => {
        const store = await world.bus.objects('snapshots')
        for (const name of await store.list()) await store.delete(name)
      },
    ],
    [
      'one that cannot be read',
      async (world: World) => {
        const store = await world.bus.objects('snapshots')
        for (const name of await store.list()) await store.put(name, Buffer.from('broken'))
      },
    ],
    [
      'one of another stream',
      async (world: World) => {
        const store = await world.bus.objects('snapshots')
        const snapshot = { v: 1, position: 3, time: 12, advisories: [], open: { v: 1, position: 3, passes: [], asked: [], cancels: [] } }
        for (const name of await store.list()) await store.delete(name)
        await store.put('timekeeper-0', encode(snapshot, 'msgpack'))
        await store.put('timekeeper-1', encode({ ...snapshot, position: 99_999_999 }, 'msgpack'))
      },
    ],
  ])('reads the stream from its start when the snapshot is %s', async (_, spoil) => {
    await using world = await World.start()
    await world.agent('audit')
    const { done, open } = await populate(world)
    await world.dispatchers[0]!.drain()
    await spoil(world)
    const again = await world.dispatcher()
    expect((await world.end(open)).error?.code).toBe('E010')
    expect((await world.bus.journal.read(done)).map(({ kind }) => kind)).toEqual(['work', 'return'])
    // Open and held were known.
    await until(() => again.stats().ended === 1, { what: 'it has counted it' })
    expect(again.stats()).toMatchObject({ ended: 1, open: 1 })
  })

  test('keeps two snapshots, and goes on from the newer one', async () => {
    await using world = await World.start({ dispatchers: [{ snapshot_ms: 50 }] })
    await world.agent('audit')
    const store = await world.bus.objects('snapshots')
    const positions = async () => {
      const found = await Promise.all(
        ['timekeeper-0', 'timekeeper-1'].map(async (name) => decode((await store.get(name)) ?? new Uint8Array(0))),
      )
      return found.map((body) => (body.ok && (body.value as { position: number }).position) || 0)
    }
    for (let n = 0; n < 4; n++) {
      const newest = Math.max(...(await positions()))
      await world.state(await world.ask({ timeout_ms: 60_000 }), 'open')
      await until(async () => Math.max(...(await positions())) > newest, { what: 'a new snapshot' })
    }
    expect((await names(world)).sort()).toEqual(['timekeeper-0', 'timekeeper-1'])
    const [a = 0, b = 0] = await positions()
    expect(a).not.toBe(b)
    await world.dispatchers[0]!.drain()
    const again = await world.dispatcher()
    await until(() => again.stats().open === 4, { what: 'all four are known' })
  })

  test('several keep time together: one end each', async () => {
    await using world = await World.start({ dispatchers: [{}, { admission: false }, { admission: false }] })
    await world.agent('audit')
    const keys = await Promise.all(Array.from({ length: 100 }, () => world.ask({ timeout_ms: 5_000 })))
    for (const key of keys) await world.end(key)
    for (const key of keys) expect((await world.bus.journal.read(key)).map(({ kind }) => kind)).toEqual(['work', 'return'])
  })

  test('the server restarts: admission and timekeeping go on', async () => {
    await using world = await World.start()
    await world.agent('audit')
    const open = await world.ask({ timeout_ms: 4_000 })
    await world.state(open, 'open')
    await world.nats.node.restart()
    await until(() => world.bus.connected, { what: 'reconnected' })
    const key = await until(() => world.ask({ timeout_ms: 1_000 }).catch(() => undefined), { what: 'the stream takes requests' })
    expect((await world.end(key)).error?.code).toBe('E010')
    expect((await world.end(open)).error?.code).toBe('E010')
  })
})

test('the stream is made anew under a running dispatcher: it starts over', async () => {
  await using world = await World.start({ dispatchers: [{ consumers_ms: 200 }] })
  await world.agent('audit')
  for (let n = 0; n < 5; n++) await world.state(await world.ask({ timeout_ms: 60_000 }), 'open')
  await until(() => world.dispatchers[0]!.stats().position >= 10, { what: 'all is read' })
  const nc = await connect({ servers: world.nats.servers })
  const manager = await jetstreamManager(nc)
  const { config } = await manager.streams.info('PASSOVER')
  await manager.streams.delete('PASSOVER')
  // As an operator does it: nothing of ours makes it anew while a snapshot of it is there.
  await manager.streams.add(config)
  await nc.close()
  await world.bus.ensureTopology()
  const key = await world.ask({ timeout_ms: 3_000 })
  expect((await world.end(key)).error?.code).toBe('E010')
  await until(() => world.dispatchers[0]!.stats().open === 0, { what: 'the former stream is forgotten' })
})

describe('the rule of late first steps (rule 5)', () => {
  test('a dispatcher that was late finds that its own first step does not count, and says that the id expired', async () => {
    const id_window_ms = 2_000
    await using world = await World.start({ dispatchers: [] })
    await world.agent('audit')
    const begun = world.bus.now()
    const key = await world.ask({ id: world.id(begun) })
    await until(() => world.bus.now() > begun + id_window_ms + 200, { what: 'the id is older than the window' })
    // Its clock stands for what sleeps between the look, soon after the request, and the server's storing.
    await world.dispatcher({ id_window_ms, timekeeper: false }, { behind_ms: 20_000 })
    const steps = await until(
      async () => {
        const all = await world.bus.journal.read(key)
        return all.length === 2 ? all : undefined
      },
      { what: 'it is told' },
    )
    expect(steps.map(({ kind }) => kind)).toEqual(['work', 'return'])
    expect(steps[1]).toMatchObject({ code: 'E005', by: 'passover', guard: { sequence: steps[0]?.sequence } })
    expect((await world.journal(key, id_window_ms)).state).toBe('done')
  })

  test('an ignored first step is followed by E005 under its guard', async () => {
    const id_window_ms = 2_000
    await using world = await World.start({ dispatchers: [] })
    await world.agent('audit')
    const id = world.id(world.bus.now() - id_window_ms - 1_000)
    const { key, ...message } = world.request({ id })
    // What a dispatcher that slept since the window has in the air.
    const late = sequenceOf(
      await world.bus.publish({
        subject: world.bus.subjects.work(key, 'medium'),
        headers: { [HEADER.digest]: 'd' },
        guard: { subject: world.bus.subjects.journal(key), sequence: 0 },
      }),
    )
    await world.bus.publish(message)
    await world.dispatcher({ id_window_ms })
    const steps = await until(
      async () => {
        const all = await world.bus.journal.read(key)
        return all.length === 2 ? all : undefined
      },
      { what: 'E005 is stored' },
    )
    expect(steps[1]).toMatchObject({ kind: 'return', code: 'E005', guard: { sequence: late } })
  })
})
