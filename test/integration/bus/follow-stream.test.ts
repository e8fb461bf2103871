import type { Bus, StoredMessage } from '@passover/bus'
import type { Fact } from '@passover/schemas'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { busOn, freshKey } from '../../support/fixtures/bus.js'
import { until, within } from '../../support/processes/until.js'
import { type NatsFixture, natsFixture } from '../../support/servers/nats.js'

describe('following the stream', () => {
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

  /** Publishes until stopped, over whatever happens to the server; gives the stored sequences. */
  function publishing(through: Bus) {
    const stored: number[] = []
    let on = true
    const lane = async () => {
      while (on) {
        const outcome = await through.publish({ subject: through.subjects.work(freshKey(), 'low'), data: new Uint8Array(200) })
        if (outcome.kind === 'stored') stored.push(outcome.sequence)
        else await new Promise((again) => setTimeout(again, 20))
      }
    }
    const lanes = Array.from({ length: 8 }, lane)
    return {
      stored,
      async stop() {
        on = false
        await Promise.all(lanes)
      },
    }
  }

  test('gives every message once and in order, from the start or from a sequence, whole or by headers', async () => {
    for (let i = 0; i < 1_500; i += 100) {
      await Promise.all(
        Array.from({ length: 100 }, () => bus.publish({ subject: bus.subjects.work(freshKey(), 'low'), data: new Uint8Array(i) })),
      )
    }
    const { last } = await bus.bounds()
    const seen: [number, number][] = []
    await using whole = await bus.follow({}, (stored) => void seen.push([stored.sequence, stored.data.length]))
    await whole.caughtUp
    expect(seen.map(([sequence]) => sequence)).toEqual(Array.from({ length: last }, (_, i) => i + 1))
    expect(seen.at(-1)?.[1]).toBe(1_400)
    expect(whole.position).toBe(last)

    const facts: Fact[] = []
    const lengths = new Set<number>()
    await using headers = await bus.follow(
      { from: 1_000, headers_only: true, filters: [bus.subjects.all('work'), bus.subjects.all('request')] },
      (stored, fact) => {
        facts.push(fact)
        lengths.add(stored.data.length)
      },
    )
    await headers.caughtUp
    expect(facts[0]).toMatchObject({ type: 'step', kind: 'work', sequence: 1_000 })
    expect(facts).toHaveLength(last - 999)
    expect([...lengths]).toEqual([0])
  })

  test('with nothing to read is caught up at once and hears what comes then', async () => {
    const { last } = await bus.bounds()
    const seen: StoredMessage[] = []
    await using reader = await bus.follow({ from: last + 1 }, (stored) => void seen.push(stored))
    await within(reader.caughtUp, 'caught up')
    expect(reader.position).toBe(last)
    await bus.publish({ subject: bus.subjects.request('audit', 'alice') })
    await until(() => seen.length === 1, { what: 'the new one comes' })
  })

  test('is caught up also when the last of what it had before it is deleted before it came', async () => {
    const from = (await bus.bounds()).last + 1
    const stored = await Promise.all(Array.from({ length: 600 }, () => bus.publish({ subject: bus.subjects.request('audit', 'alice') })))
    const sequences = stored.flatMap((outcome) => (outcome.kind === 'stored' ? [outcome.sequence] : []))
    expect(sequences).toHaveLength(600)
    let go: () => void = () => undefined
    const gate = new Promise<void>((resolve) => (go = resolve))
    let seen = 0
    await using reader = await bus.follow({ from }, () => {
      seen += 1
      return seen === 1 ? gate : undefined
    })
    await until(() => seen === 1, { what: 'the first one is handled' })
    const newest = sequences.sort((a, b) => b - a).slice(0, 100)
    for (const sequence of newest) await bus.journal.deleteMessage(sequence)
    go()
    await within(reader.caughtUp, 'caught up')
    expect(seen).toBeGreaterThanOrEqual(500)
  })

  test('waits for a handler that takes its time, and calls it again with the same message when it throws', async () => {
    const { last } = await bus.bounds()
    for (let i = 0; i < 4; i += 1) await bus.publish({ subject: bus.subjects.request('audit', 'alice') })
    const calls: number[] = []
    let under = 0
    await using reader = await bus.follow({ from: last + 1 }, async (stored) => {
      under += 1
      expect(under).toBe(1)
      await new Promise((done) => setTimeout(done, 10))
      under -= 1
      calls.push(stored.sequence)
      if (stored.sequence === last + 2 && calls.filter((one) => one === last + 2).length === 1) throw new Error('not now')
    })
    await within(reader.caughtUp, 'caught up')
    expect(calls).toEqual([last + 1, last + 2, last + 2, last + 3, last + 4])
  })

  test.each(['restart', 'kill'] as const)('has no gap and no double over a %s of the server in the middle of it', async (how) => {
    const from = (await bus.bounds()).last + 1
    const seen: number[] = []
    await using slow = await bus.follow({ from }, async (stored) => {
      seen.push(stored.sequence)
      if (stored.sequence % 50 === 0) await new Promise((done) => setTimeout(done, 5))
    })
    const fast: number[] = []
    await using _fast = await bus.follow({ from, headers_only: true }, (stored) => void fast.push(stored.sequence))
    const gulped: number[] = []
    await using _gulps = await bus.follow({ from, in_gulps: true }, (stored) => void gulped.push(stored.sequence))
    const publisher = publishing(bus)
    for (let round = 1; round <= 2; round += 1) {
      await until(() => publisher.stored.length > round * 400, { what: 'much is stored' })
      if (how === 'kill') await nats.node.kill()
      await nats.node.restart()
      await until(() => bus.connected, { what: 'reconnected' })
    }
    await until(() => publisher.stored.length > 1_200, { what: 'more is stored after it' })
    await publisher.stop()
    const { last } = await bus.bounds()
    await until(() => slow.position === last && fast.at(-1) === last && gulped.at(-1) === last, {
      what: 'all have read all',
      deadline_ms: 60_000,
    })
    const all = Array.from({ length: last - from + 1 }, (_, i) => from + i)
    expect(seen).toEqual(all)
    expect(fast).toEqual(all)
    expect(gulped).toEqual(all)
    expect(new Set(all)).toEqual(new Set([...all, ...publisher.stored]))
  })

  test('goes on when its consumer is deleted under it, and when its server freezes for a while', async () => {
    const seen: number[] = []
    const from = (await bus.bounds()).last + 1
    await using _reader = await bus.follow({ from }, (stored) => void seen.push(stored.sequence))
    const { consumers } = await bus.inspect()
    const { connect } = await import('@nats-io/transport-node')
    const nc = await connect({ servers: nats.servers })
    for (const consumer of consumers.filter((name) => name.startsWith('read_')))
      await nc.request(`$JS.API.CONSUMER.DELETE.PASSOVER.${consumer}`)
    await nc.close()
    await bus.publish({ subject: bus.subjects.request('audit', 'alice') })
    await until(() => seen.length === 1, { what: 'it reads on' })
    await nats.node.pause()
    const waiting = bus.publish({ subject: bus.subjects.request('audit', 'alice') })
    await nats.node.resume()
    await waiting
    await until(() => seen.length >= 2, { what: 'it reads on after the freeze' })
    expect(seen).toEqual(seen.map((_, i) => from + i))
  })

  test('that is closed reads no more and leaves no consumer', async () => {
    const before = await nats.census()
    const seen: number[] = []
    const reader = await bus.follow({ from: 1 }, (stored) => void seen.push(stored.sequence))
    await reader[Symbol.asyncDispose]()
    await reader[Symbol.asyncDispose]()
    await reader.closed
    const count = seen.length
    await bus.publish({ subject: bus.subjects.request('audit', 'alice') })
    expect(seen).toHaveLength(count)
    await nats.untilNothingLeft(before)
  })
})
