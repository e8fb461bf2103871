import { once } from 'node:events'
import { connect } from '@nats-io/transport-node'
import { DISPATCHER, openBus } from '@passover/bus'
import { HEADER } from '@passover/schemas'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { busOn, freshKey } from '../../support/fixtures/bus.js'
import { until } from '../../support/processes/until.js'
import { natsFixture } from '../../support/servers/nats.js'

/** Timers of this process that would keep it alive or fire later. */
const timers = () => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length

describe('opening and closing', () => {
  test('a thousand rounds of everything leave no subscription, consumer, listener or timer', async () => {
    await using nats = await natsFixture()
    const bus = await busOn(nats)
    await bus.ensureTopology()
    await bus.ensureAgent('audit', { subagent: true, max_attempts: 3, lease_ms: 5_000 })
    const table = await bus.table('policy', z.unknown())
    const round = async () => {
      const opened: AsyncDisposable[] = [
        await bus.subscribeReturns('alice', '0abcdefg', () => undefined),
        await bus.subscribeTerminations('audit', () => undefined),
        await bus.onDecided('alice', () => undefined),
        await bus.answer(async () => undefined),
        await bus.consume(DISPATCHER, async () => ({ ok: true })),
        bus.work('audit', 'low'),
      ]
      await bus.work('audit', 'low')[Symbol.asyncDispose]()
      const source = bus.work('audit', 'high')
      await source.pull({ batch: 1, expires_ms: 0 }, () => undefined)
      await Promise.all([...opened, source].map((one) => one[Symbol.asyncDispose]()))
      for (const one of opened) await one[Symbol.asyncDispose]()
    }
    const reading = async () => {
      const opened = [await bus.follow({ headers_only: true }, () => undefined), await table.watch(() => undefined)]
      await Promise.all(opened.map((one) => one[Symbol.asyncDispose]()))
    }
    await round()
    await reading()
    const before = await nats.census()
    const counted = { ...bus.counts }
    const ticking = timers()
    for (let i = 0; i < 1_000; i += 1) {
      await round()
      if (i % 10 === 0) await reading()
    }
    await nats.untilNothingLeft(before)
    expect(bus.counts).toEqual(counted)
    await until(() => timers() <= ticking + 1, { what: 'no timer is left' })
    expect(bus.errors).toEqual([])
    await bus[Symbol.asyncDispose]()
  })

  test('closing the bus closes what is open on it, once or twice, and settles what waits', async () => {
    await using nats = await natsFixture()
    const system = await busOn(nats)
    await system.ensureTopology()
    await system.ensureAgent('audit', { subagent: true, max_attempts: 3, lease_ms: 5_000 })
    const before = await nats.census()
    const ticking = timers()
    const bus = await busOn(nats, { identity: 'closing' })
    const table = await bus.table('policy', z.unknown())
    await bus.subscribeReturns('alice', '0abcdefg', () => undefined)
    await bus.follow({}, () => undefined)
    await table.watch(() => undefined)
    await bus.answer(async () => undefined)
    await bus.consume(DISPATCHER, async () => ({ ok: true }))
    const parked = bus.work('audit', 'high').pull({ batch: 1, expires_ms: 30_000 }, () => undefined)
    await Promise.all([bus[Symbol.asyncDispose](), bus[Symbol.asyncDispose]()])
    expect(await parked).toBe('failed')
    expect(await bus.closed).toBeUndefined()
    expect(bus.connected).toBe(false)
    expect(await bus.publish({ subject: 'request.audit.alice' })).toMatchObject({ kind: 'unknown' })
    expect(bus.counts).toMatchObject({ subscriptions: 0, pending: 0, open: 0 })
    await nats.untilNothingLeft(before)
    await until(() => timers() <= ticking, { what: 'no timer is left' })
    await system[Symbol.asyncDispose]()
  })

  test('a callback that throws is reported, and the connection reads on', async () => {
    await using nats = await natsFixture()
    const bus = await busOn(nats)
    await bus.ensureTopology()
    let heard = 0
    await using _hearing = await bus.subscribeReturns('alice', '0abcdefg', () => {
      heard += 1
      throw new Error('listener broke')
    })
    const headers = { [HEADER.code]: 'E010' }
    for (let i = 0; i < 3; i += 1)
      expect(await bus.publish({ subject: bus.subjects.return(freshKey(), 'passover'), headers })).toMatchObject({ kind: 'stored' })
    await until(() => heard === 3, { what: 'all three are heard' })
    expect(bus.errors.map(String)).toEqual(Array(3).fill('Error: listener broke'))
    await bus[Symbol.asyncDispose]()
  })

  test('tells of reconnects, keeps the time of the newest, and goes by the server’s clock', async () => {
    await using nats = await natsFixture()
    const bus = await busOn(nats)
    await bus.ensureTopology()
    expect(bus.clustered).toBe(false)
    expect(Math.abs(bus.now() - Date.now())).toBeLessThan(1_000)
    const first = bus.connectedAt()
    let reconnects = 0
    const remove = bus.onReconnect(() => (reconnects += 1))
    await nats.node.restart()
    await until(() => reconnects === 1 && bus.connected, { what: 'reconnected' })
    expect(bus.connectedAt()).toBeGreaterThan(first)
    expect(bus.connectedAt()).toBeLessThanOrEqual(bus.now())
    remove()
    await nats.node.restart()
    await until(() => bus.connected, { what: 'reconnected again' })
    expect(reconnects).toBe(1)
    await until(() => bus.measureClock(), { what: 'its answer is quick enough' })
    await bus[Symbol.asyncDispose]()
  })

  test('does not believe what a server that was frozen meanwhile says, nor a time from before a reconnect', async () => {
    await using nats = await natsFixture()
    await using bus = await busOn(nats)
    await bus.ensureTopology()
    expect(bus.clockMeasured).toBe(true)
    let afterReconnect: boolean | undefined
    bus.onReconnect(() => (afterReconnect ??= bus.clockMeasured))
    await nats.node.restart()
    await until(() => afterReconnect !== undefined, { what: 'reconnected' })
    expect(afterReconnect).toBe(false)
    await until(() => bus.clockMeasured, { what: 'measured anew' })
    await nats.node.pause()
    const measured = bus.measureClock()
    // Half of so long would be what it is wrong by.
    await new Promise((done) => setTimeout(done, 2_000))
    await nats.node.resume()
    // Three answers that were slow by themselves say nothing, on a machine that others use too.
    if (!(await measured)) await until(() => bus.measureClock(), { what: 'its answer is quick enough' })
    expect(Math.abs(bus.now() - Date.now())).toBeLessThan(500)
  })

  test('who may not ask the stream for the time asks the service', async () => {
    const users = [
      { user: 'passover', password: 'p', permissions: { publish: ['>'], subscribe: ['>'] } },
      { user: 'alice', password: 'p', permissions: { publish: ['ask.alice'], subscribe: ['_INBOX_alice.>'] } },
    ]
    await using nats = await natsFixture({ config: { users } })
    const system = await busOn(nats, { credentials: { user: 'passover', pass: 'p' } })
    await system.ensureTopology()
    const alice = await busOn(nats, { identity: 'alice', credentials: { user: 'alice', pass: 'p' } })
    expect(await alice.measureClock()).toBe(false)
    await using _answering = await system.answer(async (_, question) =>
      (question as { op: string }).op === 'time' ? { ok: true, now: system.now() + 3_600_000 } : undefined,
    )
    await until(() => alice.measureClock(), { what: 'its answer is quick enough' })
    // An hour, give or take how long somebody else had the processor between the two looks.
    expect(Math.abs(alice.now() - system.now() - 3_600_000)).toBeLessThan(60_000)
    await alice[Symbol.asyncDispose]()
    await system[Symbol.asyncDispose]()
  })

  test('a warning shows the control characters of a key that it quotes', async () => {
    await using nats = await natsFixture()
    await using bus = await openBus({ servers: nats.servers, identity: 'passover' })
    await bus.ensureTopology()
    const nc = await connect({ servers: nats.servers })
    await nc.request('$KV.passes.mallory.\u001b[31m\u202e', 'zz')
    await nc.close()
    const warned = once(process, 'warning')
    const records = await bus.table('passes', z.object({ agent: z.string() }))
    for await (const _ of records.entries()) expect.unreachable()
    const [{ message }] = (await warned) as [Error]
    expect(message).toContain('mallory.\\u001b[31m\\u202e')
    expect(message).toMatch(/^[\x20-\x7e]+$/)
  })
})
