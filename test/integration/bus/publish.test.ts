import type { Bus, PublishResult } from '@passover/bus'
import { BusUnreachable, encode } from '@passover/bus'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { busOn, freshKey } from '../../support/fixtures/bus.js'
import { until, within } from '../../support/processes/until.js'
import { type NatsFixture, natsFixture } from '../../support/servers/nats.js'
import { freePorts } from '../../support/servers/ports.js'

describe('guarded publish', () => {
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

  test('of many rivals for one step, exactly one wins and the others learn the last sequence', async () => {
    const key = freshKey()
    const other = await busOn(nats, { identity: 'second' })
    const guard = { subject: bus.subjects.journal(key), sequence: 0 }
    const tries = Array.from({ length: 60 }, (_, i) =>
      (i % 2 ? bus : other).publish(
        i % 3 ? { subject: bus.subjects.work(key, 'high'), guard } : { subject: bus.subjects.return(key, 'passover'), guard },
      ),
    )
    const outcomes = await Promise.all(tries)
    const won = outcomes.filter((outcome) => outcome.kind === 'stored')
    expect(won).toHaveLength(1)
    const [{ sequence }] = won as [Extract<PublishResult, { kind: 'stored' }>]
    expect(outcomes.filter((outcome) => outcome.kind !== 'stored')).toEqual(Array(59).fill({ kind: 'lost', last: sequence }))
    await other[Symbol.asyncDispose]()
  })

  test('keeps its order and its outcomes apart with a thousand in flight', async () => {
    const keys = Array.from({ length: 1_000 }, () => freshKey())
    const outcomes = await Promise.all(
      keys.map((key) =>
        bus.publish({
          subject: bus.subjects.work(key, 'low'),
          data: encode(key),
          guard: { subject: bus.subjects.journal(key), sequence: 0 },
        }),
      ),
    )
    const sequences = outcomes.map((outcome) => (outcome.kind === 'stored' ? outcome.sequence : 0))
    expect(sequences).toEqual([...sequences].sort((a, b) => a - b))
    expect(new Set(sequences).size).toBe(1_000)
    const stored = await bus.journal.message(sequences[500] ?? 0)
    expect(stored?.subject).toBe(bus.subjects.work(keys[500] ?? freshKey(), 'low'))
    expect(bus.counts.pending).toBe(0)
  })

  test('too much for a message is refused before it is sent', async () => {
    const outcome = await bus.publish({ subject: bus.subjects.request('audit', 'alice'), data: new Uint8Array(1024 * 1024) })
    expect(outcome).toMatchObject({ kind: 'refused', reason: 'too_large' })
    expect(await bus.publish({ subject: bus.subjects.request('audit', 'alice'), data: new Uint8Array(1024 * 1024 - 1024) })).toMatchObject({
      kind: 'stored',
    })
  })

  test('a subject that no stream takes is closed', async () => {
    expect(await bus.publish({ subject: 'nobody.takes.this' })).toMatchObject({ kind: 'refused', reason: 'closed' })
  })

  test('requests can be closed at the high-water mark while returns still fit, and opened again', async () => {
    await bus.setRequests('closed')
    expect(await bus.usage()).toMatchObject({ requests: 'closed' })
    expect(await bus.publish({ subject: bus.subjects.request('audit', 'alice') })).toMatchObject({ kind: 'refused', reason: 'closed' })
    expect(await bus.publish({ subject: bus.subjects.return(freshKey(), 'passover') })).toMatchObject({ kind: 'stored' })
    await bus.ensureTopology()
    expect(await bus.usage()).toMatchObject({ requests: 'closed' })
    await bus.setRequests('open')
    expect(await bus.publish({ subject: bus.subjects.request('audit', 'alice') })).toMatchObject({ kind: 'stored' })
  })

  test('while the server is frozen the outcome is unknown after the timeout, and what was stored is found by reading', async () => {
    const hasty = await busOn(nats, { identity: 'hasty', timeout_ms: 2_000 })
    const key = freshKey()
    await nats.node.pause()
    const outcome = await hasty.publish({
      subject: hasty.subjects.work(key, 'high'),
      guard: { subject: hasty.subjects.journal(key), sequence: 0 },
    })
    await nats.node.resume()
    expect(outcome).toMatchObject({ kind: 'unknown', description: 'timeout' })
    await until(async () => (await hasty.journal.read(key)).length === 1, { what: 'the late publish is found' })
    await hasty[Symbol.asyncDispose]()
  })
})

describe('a blocked event loop', () => {
  test('does not expire an answer that lies unread in the socket', async () => {
    await using nats = await natsFixture()
    const patient = await busOn(nats)
    await patient.ensureTopology()
    await patient[Symbol.asyncDispose]()
    const bus = await busOn(nats, { timeout_ms: 1_000 })
    const outcome = bus.publish({ subject: bus.subjects.request('audit', 'alice') })
    await new Promise((sent) => setImmediate(sent))
    const end = performance.now() + 2_000
    while (performance.now() < end) Math.sqrt(end)
    expect(await outcome).toMatchObject({ kind: 'stored' })
    await bus[Symbol.asyncDispose]()
  })
})

describe('a full stream', () => {
  test('refuses as full', async () => {
    await using nats = await natsFixture()
    const bus = await busOn(nats)
    await bus.ensureTopology({ max_bytes: 200_000 })
    const outcomes: PublishResult[] = []
    for (let i = 0; i < 10; i += 1)
      outcomes.push(await bus.publish({ subject: bus.subjects.request('audit', 'alice'), data: new Uint8Array(50_000) }))
    expect(outcomes[0]).toMatchObject({ kind: 'stored' })
    expect(outcomes.at(-1)).toMatchObject({ kind: 'refused', reason: 'full' })
    expect(await bus.usage()).toMatchObject({ max_bytes: 200_000 })
    await bus[Symbol.asyncDispose]()
  })
})

describe('permissions', () => {
  test('a refused publish is told at once, others in flight go on, and a refused inbox is a clear error', async () => {
    const user = (name: string, publish: string[], subscribe: string[]) => ({
      user: name,
      password: 'p',
      permissions: { publish, subscribe },
    })
    const users = [user('passover', ['>'], ['>']), user('alice', ['request.*.alice'], ['_INBOX_alice.>']), user('deaf', ['>'], ['x'])]
    await using nats = await natsFixture({ config: { users } })
    const system = await busOn(nats, { credentials: { user: 'passover', pass: 'p' } })
    await system.ensureTopology()
    const alice: Bus = await busOn(nats, { identity: 'alice', credentials: { user: 'alice', pass: 'p' }, timeout_ms: 120_000 })
    const told = Promise.all([
      alice.publish({ subject: 'request.audit.alice' }),
      alice.publish({ subject: 'request.audit.bob' }),
      alice.publish({ subject: 'request.audit.alice' }),
    ])
    const [mine, forged, again] = await within(told, 'each is told without waiting for the timeout', 60_000)
    expect(mine).toMatchObject({ kind: 'stored' })
    expect(forged).toMatchObject({ kind: 'refused', reason: 'permission' })
    expect(again).toMatchObject({ kind: 'stored' })
    await expect(alice.journal.message(1)).rejects.toMatchObject({ name: 'BusReadError', reason: 'permission' })
    const deaf = busOn(nats, { identity: 'deaf', credentials: { user: 'deaf', pass: 'p' } })
    await expect(deaf).rejects.toMatchObject({ name: 'BusUnreachable', hint: expect.stringContaining('_INBOX_deaf') })
    const stranger = busOn(nats, { identity: 'alice', credentials: { user: 'alice', pass: 'wrong' }, timeout_ms: 20_000 })
    await expect(stranger).rejects.toMatchObject({ hint: expect.stringContaining('credentials') })
    await alice[Symbol.asyncDispose]()
    await system[Symbol.asyncDispose]()
  })

  test('no server at all is unreachable, with what to do', async () => {
    const started = performance.now()
    const [port] = await freePorts(1)
    const failed = await busOn({ servers: [`nats://127.0.0.1:${port}`] } as NatsFixture).catch((error: unknown) => error)
    expect(failed).toBeInstanceOf(BusUnreachable)
    expect((failed as BusUnreachable).hint).toContain('passover up')
    expect(performance.now() - started).toBeLessThan(60_000)
  })
})
