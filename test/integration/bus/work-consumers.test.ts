import { type AckDecision, type Bus, type Delivery, DISPATCHER } from '@passover/bus'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { busOn, freshKey } from '../../support/fixtures/bus.js'
import { staysTrue, until, within } from '../../support/processes/until.js'
import { type NatsFixture, natsFixture } from '../../support/servers/nats.js'

describe('pulling work', () => {
  let nats: NatsFixture
  let bus: Bus
  beforeAll(async () => {
    nats = await natsFixture()
    bus = await busOn(nats)
    await bus.ensureTopology()
  })
  afterAll(async () => {
    await bus[Symbol.asyncDispose]()
    await nats[Symbol.asyncDispose]()
  })

  const agent = async (name: string, lease_ms = 5_000) => {
    await bus.ensureAgent(name, { subagent: true, max_attempts: 5, lease_ms })
    return bus.work(name, 'high')
  }
  const give = async (subagent: string, count = 1) => {
    for (let i = 0; i < count; i += 1) await bus.publish({ subject: bus.subjects.work(freshKey({ subagent }), 'high') })
  }

  test('ends as full, empty, or at once when nothing may be waited for', async () => {
    await using source = await agent('p1')
    await give('p1', 5)
    const got: Delivery[] = []
    expect(await source.pull({ batch: 3, expires_ms: 30_000 }, (one) => void got.push(one))).toBe('full')
    expect(await source.pull({ batch: 3, expires_ms: 0 }, (one) => void got.push(one))).toBe('empty')
    expect(await source.pull({ batch: 3, expires_ms: 300 }, (one) => void got.push(one))).toBe('empty')
    expect(got.map((one) => one.consumer_sequence)).toEqual([1, 2, 3, 4, 5])
    expect(got.every((one) => one.delivered === 1 && Math.abs(one.time - bus.now()) < 60_000)).toBe(true)
    for (const one of got) one.ack()
  })

  test('two pulls under way share what comes, and each of them ends', async () => {
    await using source = await agent('p2')
    const got: Delivery[] = []
    const pulls = [3, 4].map((batch) => source.pull({ batch, expires_ms: 2_500 }, (one) => void got.push(one)))
    await give('p2', 5)
    const ends = await within(Promise.all(pulls), 'both pulls end', 60_000)
    expect(got).toHaveLength(5)
    expect(ends.sort()).toEqual(['empty', 'full'])
  })

  test('of a consumer that is not there is gone, also when it goes meanwhile, and works once it is there', async () => {
    await using source = bus.work('p3', 'high')
    expect(await source.created()).toBeUndefined()
    expect(await source.pull({ batch: 1, expires_ms: 30_000 }, () => undefined)).toBe('gone')
    await agent('p3')
    const before = await source.created()
    expect(before).toBeTypeOf('number')
    expect(Math.abs((before ?? 0) - bus.now())).toBeLessThan(60_000)
    const parked = source.pull({ batch: 1, expires_ms: 30_000 }, () => undefined)
    const { connect } = await import('@nats-io/transport-node')
    const nc = await connect({ servers: nats.servers })
    await until(async () => (await bus.workload('p3'))[0]?.idle === 1, { what: 'the pull is parked' })
    await nc.request('$JS.API.CONSUMER.DELETE.PASSOVER.work_p3_high')
    expect(await within(parked, 'the parked pull ends')).toBe('gone')
    await nc.close()
  })

  test('unanswered work comes again after its lease, renewed work does not, given back work comes at once', async () => {
    // Between two of its pulls this process may get no processor for a second.
    await using source = await agent('p4', 1_800)
    await give('p4')
    const got: Delivery[] = []
    const pull = (expires_ms: number) => source.pull({ batch: 1, expires_ms }, (one) => void got.push(one))
    await pull(30_000)
    for (let i = 0; i < 4; i += 1) {
      await pull(500)
      got[0]?.working()
    }
    expect(got).toHaveLength(1)
    await pull(30_000)
    expect(got.map((one) => one.delivered)).toEqual([1, 2])
    got[1]?.nak()
    await pull(30_000)
    got[2]?.nak(1_500)
    expect(await pull(150)).toBe('empty')
    await pull(30_000)
    expect(got.map((one) => one.delivered)).toEqual([1, 2, 3, 4])
    got[3]?.term('enough')
    got[3]?.nak()
    expect(await pull(1_000)).toBe('empty')
  })

  test('a lost connection ends it as failed, and the next pull works after the restart', async () => {
    await using source = await agent('p5')
    const parked = source.pull({ batch: 1, expires_ms: 30_000 }, () => undefined)
    await nats.node.kill()
    expect(await within(parked, 'the pull ends')).toBe('failed')
    await nats.node.restart()
    await until(() => bus.connected, { what: 'reconnected' })
    await give('p5')
    const got: Delivery[] = []
    await until(async () => (await source.pull({ batch: 1, expires_ms: 500 }, (one) => void got.push(one))) === 'full', {
      what: 'work comes',
    })
    expect(got).toHaveLength(1)
  })
})

describe('consuming a durable', () => {
  let nats: NatsFixture
  let bus: Awaited<ReturnType<typeof busOn>>
  beforeAll(async () => {
    nats = await natsFixture()
    bus = await busOn(nats)
    await bus.ensureTopology()
  })
  afterAll(async () => {
    await bus[Symbol.asyncDispose]()
    await nats[Symbol.asyncDispose]()
  })

  const ask = async (count: number, from = 'alice') => {
    const outcomes = await Promise.all(Array.from({ length: count }, () => bus.publish({ subject: bus.subjects.request('audit', from) })))
    return outcomes.map((outcome) => (outcome.kind === 'stored' ? outcome.sequence : 0))
  }

  test('handles every message once, never more than its concurrency at a time, and drains', async () => {
    let running = 0
    let most = 0
    const seen: number[] = []
    const handler = async (delivery: Delivery): Promise<AckDecision> => {
      running += 1
      most = Math.max(most, running)
      await new Promise((done) => setImmediate(done))
      running -= 1
      seen.push(delivery.sequence)
      return { ok: true }
    }
    const sequences = await ask(500)
    const consumption = await bus.consume(DISPATCHER, handler, { concurrency: 7 })
    await until(() => seen.length >= 500, { what: 'all are handled' })
    await consumption.drain()
    await consumption.closed
    expect(seen.sort((a, b) => a - b)).toEqual(sequences.sort((a, b) => a - b))
    expect(most).toBeGreaterThan(1)
    expect(most).toBeLessThanOrEqual(7)
    const later = await ask(1)
    await staysTrue(() => seen.length === 500, { what: 'nothing comes after the drain', for_ms: 200 })
    const last: number[] = []
    await using _next = await bus.consume(DISPATCHER, async (one) => ({ ok: last.push(one.sequence) > 0 }) as AckDecision)
    await until(() => last.length === 1, { what: 'the next consumption takes it' })
    expect(last).toEqual(later)
  })

  test('what throws or asks for it comes again, what is fatal does not, and the process lives', async () => {
    const counts = new Map<string, number>()
    const verdicts: Record<string, () => Promise<AckDecision>> = {
      thrower: () => Promise.reject(new Error('handler broke')),
      again: async () => ({ retry: true, delay_ms: 50 }),
      fatal: async () => ({ fatal: 'poison' }),
      fine: async () => ({ ok: true }),
    }
    await using _consumption = await bus.consume(DISPATCHER, async (one) => {
      const parsed = bus.subjects.parse(one.subject)
      const who = parsed.kind === 'request' ? parsed.originator : ''
      counts.set(who, (counts.get(who) ?? 0) + 1)
      if (one.delivered > 1) return { ok: true }
      return verdicts[who]?.() ?? { ok: true }
    })
    for (const who of Object.keys(verdicts)) await ask(1, who)
    await until(() => counts.get('thrower') === 2 && counts.get('again') === 2, { what: 'both came again' })
    await staysTrue(() => counts.get('fatal') === 1 && counts.get('fine') === 1, { what: 'the others came once', for_ms: 300 })
    expect(String(bus.errors.find((error) => String(error).includes('handler broke')))).toContain('handler broke')
  })

  test('gives a delivery to nobody else while it is handled, however long that takes', async () => {
    const delivered: number[] = []
    const handler = async (one: Delivery): Promise<AckDecision> => {
      delivered.push(one.delivered)
      await new Promise((done) => setTimeout(done, 7_000))
      return { ok: true }
    }
    await using _one = await bus.consume(DISPATCHER, handler)
    await using _other = await bus.consume(DISPATCHER, handler)
    await ask(1)
    await staysTrue(() => delivered.length <= 1, { what: 'it is delivered once', for_ms: 8_000 })
    expect(delivered).toEqual([1])
  })

  test('goes on after a restart of the server and makes its consumer anew when it was deleted', async () => {
    const seen = new Set<number>()
    await using _consumption = await bus.consume(DISPATCHER, async (one) => {
      seen.add(one.sequence)
      return { ok: true }
    })
    await nats.node.restart()
    await until(() => bus.connected, { what: 'reconnected' })
    const [first] = await ask(1)
    await until(() => seen.has(first ?? 0), { what: 'it consumes after the restart' })
    const { connect } = await import('@nats-io/transport-node')
    const nc = await connect({ servers: nats.servers })
    await nc.request('$JS.API.CONSUMER.DELETE.PASSOVER.dispatcher')
    await nc.close()
    const [second] = await ask(1)
    await until(() => seen.has(second ?? 0), { what: 'it consumes from the new consumer' })
  })
})
