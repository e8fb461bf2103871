import { openBus } from '@passover/bus'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { sequenceOf, World } from '../../support/dispatcher/dispatcher.js'
import { until } from '../../support/processes/until.js'

/** The records of an agent that does not exist for one dispatcher only: its policy disables the pair. */
const REFUSES = { policy: { version: 2, document: { pairs: { 'alice->audit': { enabled: false, reason: 'closed for the test' } } } } }

describe('several dispatchers', () => {
  test('50 publishes of one id by 5 clients over 3 dispatchers are one work', async () => {
    await using world = await World.start({ dispatchers: [{}, {}, {}] })
    await world.agent('audit')
    const clients = await Promise.all(Array.from({ length: 5 }, () => openBus({ servers: world.nats.servers, identity: 'alice' })))
    try {
      const { key, ...message } = world.request()
      await Promise.all(Array.from({ length: 50 }, async (_, n) => sequenceOf(await clients[n % 5]!.publish(message))))
      const done = () => world.dispatchers.reduce((sum, one) => sum + one.stats().admitted + one.stats().repeated, 0)
      await until(() => done() === 50, { what: 'all 50 requests are settled' })
      expect(world.dispatchers.reduce((sum, one) => sum + one.stats().admitted, 0)).toBe(1)
      expect((await world.bus.journal.read(key)).map(({ kind }) => kind)).toEqual(['work'])
    } finally {
      await Promise.all(clients.map((client) => client[Symbol.asyncDispose]()))
    }
  })

  test('one admits and one refuses the same requests: each journal has one first step, and only one', async () => {
    await using world = await World.start({ dispatchers: [{}, REFUSES] })
    await world.agent('audit')
    const requests = Array.from({ length: 60 }, () => world.request())
    // Each is published four times, so that both dispatchers decide about most of them.
    await Promise.all(
      [...requests, ...requests, ...requests, ...requests].map(async ({ subject, data, headers }) =>
        sequenceOf(await world.bus.publish({ subject, data, headers })),
      ),
    )
    const settled = () => world.dispatchers.reduce((sum, one) => sum + one.stats().admitted + one.stats().refused + one.stats().repeated, 0)
    await until(() => settled() === 240, { what: 'all requests are settled' })
    const kinds = { work: 0, return: 0 }
    for (const { key } of requests) {
      const steps = await world.bus.journal.read(key)
      expect(steps).toHaveLength(1)
      kinds[steps[0]!.kind as keyof typeof kinds]++
    }
    expect(kinds.work).toBeGreaterThan(0)
    expect(kinds.return).toBeGreaterThan(0)
  })

  test('what an honest or hostile client publishes ends as bad-<sequence> E005 or under its own id; the dispatcher goes on', async () => {
    await using world = await World.start()
    await world.agent('audit')
    const valid = world.request()
    const bytes = fc.oneof(
      fc.uint8Array({ maxLength: 300 }),
      fc.jsonValue().map((value) => Buffer.from(JSON.stringify(value))),
      fc.tuple(fc.nat(valid.data.length - 1), fc.nat(255)).map(([at, value]) => {
        const spoiled = Buffer.from(valid.data)
        spoiled[at] = value
        return spoiled
      }),
      fc.nat(valid.data.length - 1).map((length) => Buffer.from(valid.data).subarray(0, length)),
    )
    const sent = await Promise.all(fc.sample(bytes, 400).map((data) => world.send(data)))
    const [running] = world.dispatchers
    await until(
      () =>
        (running?.stats().bad ?? 0) +
          (running?.stats().admitted ?? 0) +
          (running?.stats().refused ?? 0) +
          (running?.stats().repeated ?? 0) >=
        sent.length,
      { what: 'every one is answered', deadline_ms: 30_000 },
    )
    const answered = new Map<string, number>()
    for (const bad of sent) {
      const steps = await world.bus.journal.read(bad)
      const kind = steps.map(({ kind, code }) => `${kind} ${code}`).join()
      answered.set(kind, (answered.get(kind) ?? 0) + 1)
    }
    expect([...answered.keys()].filter((kind) => kind !== 'return E005' && kind !== '')).toEqual([])
    expect(answered.get('return E005')).toBeGreaterThan(300)
    await world.work(await world.ask())
  })
})
