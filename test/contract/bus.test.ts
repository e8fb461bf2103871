import { type Bus, type Delivery, deliveriesOf, type StoredMessage } from '@passover/bus'
import type { PassKey, Step } from '@passover/schemas'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { until } from '../support/processes/until.js'
import { BUS_MAKERS, type BusHome } from './bus-makers.js'

const LEASE_MS = 1_500
const TEXT = new TextEncoder()
const JUST_ONE = { batch: 1, expires_ms: 5_000 }

let made = 0
/** A pass of an agent of its own: the suite shares one stream. */
function newKey(): PassKey {
  made += 1
  return { originator: 'alice', subagent: `worker${made}`, id: `pass-number-${made}` }
}

/** What the product depends on of its bus, put to every maker of one. */
describe.each(Object.entries(BUS_MAKERS))('a bus over %s', (_, make) => {
  let home: BusHome
  let bus: Bus

  beforeAll(async () => {
    home = await make()
    bus = await home.open('passover')
    await bus.ensureTopology()
  })
  afterAll(() => home[Symbol.asyncDispose]())

  const guarded = (subject: string, key: PassKey, sequence: number) => ({
    subject,
    headers: { 'Passover-Attempt': '1' },
    data: TEXT.encode('x'),
    guard: { subject: bus.subjects.journal(key), sequence },
  })
  const work = (key: PassKey) => guarded(bus.subjects.work(key, 'medium'), key, 0)
  const back = (key: PassKey, after: number) => guarded(bus.subjects.return(key, key.subagent), key, after)
  async function stored(message: Parameters<Bus['publish']>[0]): Promise<number> {
    const outcome = await bus.publish(message)
    if (outcome.kind !== 'stored') throw new Error(JSON.stringify(outcome))
    return outcome.sequence
  }
  const agent = (key: PassKey, max_attempts = 3) => bus.ensureAgent(key.subagent, { subagent: true, max_attempts, lease_ms: LEASE_MS })

  test('of two first steps one is stored, and the other one hears that it lost', async () => {
    const key = newKey()
    const outcomes = await Promise.all([bus.publish(work(key)), bus.publish(guarded(bus.subjects.held(key), key, 0))])
    expect(outcomes.map(({ kind }) => kind).sort()).toEqual(['lost', 'stored'])
    const winner = outcomes.find(({ kind }) => kind === 'stored')
    const sequence = winner?.kind === 'stored' ? winner.sequence : 0
    expect(outcomes.find(({ kind }) => kind === 'lost')).toMatchObject({ last: sequence })
    expect(await bus.publish(back(key, sequence))).toMatchObject({ kind: 'stored' })
  })

  test('a journal is read in order, with guards, headers and the server’s times', async () => {
    const key = newKey()
    const first = await stored(work(key))
    const last = await stored(back(key, first))
    const steps = await bus.journal.read(key)
    expect(steps).toMatchObject([
      { kind: 'work', by: 'medium', sequence: first, attempt: 1, guard: { subject: bus.subjects.journal(key), sequence: 0 } },
      { kind: 'return', by: key.subagent, sequence: last, guard: { sequence: first } },
    ])
    expect(Math.abs((steps[0] as Step).time - bus.now())).toBeLessThan(60_000)
    expect((await bus.journal.glimpse(key)).map(({ sequence }) => sequence)).toEqual([first, last])
    expect((await bus.journal.last(bus.subjects.return(key, key.subagent)))?.sequence).toBe(last)
    expect(await bus.journal.last(bus.subjects.held(key))).toBeUndefined()
  })

  test('a history has the request, the steps, and all decisions and events, in order', async () => {
    const key = newKey()
    const request = await stored({ subject: bus.subjects.request(key.subagent, key.originator), data: TEXT.encode('x') })
    const first = await stored({ ...work(key), headers: { 'Passover-Attempt': '1', 'Passover-Request': String(request) } })
    const told: number[] = []
    for (const person of ['pat', 'quinn'])
      told.push(await stored({ subject: bus.subjects.decision(key, 'return', person), data: TEXT.encode('x') }))
    for (const kind of ['started', 'applied', 'expired'] as const)
      told.push(await stored({ subject: bus.subjects.event(key, kind, key.subagent), data: TEXT.encode('x') }))
    const last = await stored(back(key, first))
    expect((await bus.journal.history(key)).map(({ sequence }) => sequence)).toEqual([request, first, ...told, last])
  })

  test('advance: who loses reads what was stored, and plans anew', async () => {
    const key = newKey()
    const first = await stored(work(key))
    const seen: number[][] = []
    const advanced = await bus.journal.advance(
      key,
      (steps) => {
        seen.push(steps.map(({ sequence }) => sequence))
        return { publish: back(key, steps.at(-1)?.sequence ?? 0), stored: (sequence) => sequence }
      },
      { read: 'leader' },
    )
    expect(advanced).toEqual({ ok: true, value: expect.any(Number) })
    expect(seen).toEqual([[], [first]])
  })

  test('what is deleted is gone for the leader, and lets no first step in before it is all gone', async () => {
    const key = newKey()
    const first = await stored(work(key))
    const last = await stored(back(key, first))
    expect(await bus.journal.deleteMessage(first)).toBe(true)
    expect(await bus.publish(work(key))).toMatchObject({ kind: 'lost' })
    expect(await bus.journal.deleteMessage(last)).toBe(true)
    expect(await bus.journal.deleteMessage(last)).toBe(true)
    expect(await bus.journal.message(last)).toBeUndefined()
    expect(await bus.journal.read(key)).toEqual([])
    expect(await bus.publish(work(key))).toMatchObject({ kind: 'stored' })
  })

  test('work is delivered once, again when its lease lapses, and no more when it is acknowledged', async () => {
    const key = newKey()
    await agent(key)
    await using source = bus.work(key.subagent, 'medium')
    expect(await source.created()).toEqual(expect.any(Number))
    const sequence = await stored(work(key))
    const got: Delivery[] = []
    expect(await source.pull(JUST_ONE, (one) => got.push(one))).toBe('full')
    expect(await source.pull(JUST_ONE, (one) => got.push(one))).toBe('full')
    expect(got.map(({ delivered, consumer_sequence }) => [delivered, consumer_sequence])).toEqual([
      [1, 1],
      [2, 2],
    ])
    expect(got[1]?.sequence).toBe(sequence)
    got[1]?.ack()
    expect(await source.pull({ batch: 1, expires_ms: LEASE_MS * 2 }, (one) => got.push(one))).toBe('empty')
    expect(got).toHaveLength(2)
  })

  test('what is handed back comes at once; the last lost delivery becomes an advisory in the stream', async () => {
    const key = newKey()
    await agent(key, 2)
    await using source = bus.work(key.subagent, 'medium')
    const sequence = await stored(work(key))
    const deliveries = deliveriesOf(2)
    for (let n = 1; n < deliveries; n += 1) await source.pull(JUST_ONE, (one) => one.nak())
    await source.pull(JUST_ONE, () => undefined)
    // The server finds that out when somebody asks for more.
    await source.pull({ batch: 1, expires_ms: LEASE_MS * 2 }, () => undefined)
    const filter = `$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.PASSOVER.${bus.subjects.workConsumer(key.subagent, 'medium')}`
    const advisory = await until(() => bus.journal.newest(filter), { what: 'the advisory', deadline_ms: 30_000 })
    expect(JSON.parse(new TextDecoder().decode(advisory.data))).toMatchObject({ stream_seq: sequence, deliveries })
  })

  test('an only delivery that is lost becomes an advisory also where nobody asks for more; what is not lost stays where it is', async () => {
    const [key, other, waiting] = [newKey(), newKey(), newKey()]
    await agent(key, 1)
    await using source = bus.work(key.subagent, 'medium')
    const sequence = await stored(work(key))
    await source.pull(JUST_ONE, () => undefined)
    // One that is held, and one that waits.
    await bus.ensureAgent(other.subagent, { subagent: true, max_attempts: 1, lease_ms: 60_000 })
    await using held = bus.work(other.subagent, 'medium')
    await stored(work(other))
    const got: Delivery[] = []
    await held.pull(JUST_ONE, (one) => got.push(one))
    await stored(work({ ...waiting, subagent: other.subagent }))

    const filter = (subagent: string) =>
      `$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.PASSOVER.${bus.subjects.workConsumer(subagent, 'medium')}`
    const advisory = await until(() => bus.journal.newest(filter(key.subagent)), { what: 'the advisory', deadline_ms: 30_000 })
    expect(JSON.parse(new TextDecoder().decode(advisory.data))).toMatchObject({ stream_seq: sequence, deliveries: 1 })
    expect(await held.pull(JUST_ONE, (one) => got.push(one))).toBe('full')
    expect(got.map(({ delivered }) => delivered)).toEqual([1, 1])
    expect(await bus.journal.newest(filter(other.subagent))).toBeUndefined()
  })

  test('where there is no consumer a pull says so', async () => {
    await using source = bus.work('nobody', 'high')
    expect(await source.created()).toBeUndefined()
    expect(await source.pull(JUST_ONE, () => undefined)).toBe('gone')
  })

  test('a reader hands on everything once and in order, also while its handler waits, and says when it has caught up', async () => {
    const key = newKey()
    const before = [await stored(work(key))]
    before.push(await stored(back(key, before[0] as number)))
    const read: StoredMessage[] = []
    await using reader = await bus.follow({ filters: [bus.subjects.journal(key)], headers_only: true }, async (one) => {
      await Promise.resolve()
      read.push(one)
    })
    await reader.caughtUp
    expect(read.map(({ sequence }) => sequence)).toEqual(before)
    expect(read.every(({ data }) => data.length === 0)).toBe(true)
    const later = await stored({ subject: bus.subjects.held(key), data: TEXT.encode('unguarded') })
    await until(() => read.length === 3, { what: 'the third' })
    expect(reader.position).toBe(later)
  })

  test('a return is heard when it was stored, and not when its guard was refused; a fence is heard either way', async () => {
    const key = newKey()
    const alice = await home.open('alice')
    const heard: number[] = []
    const detours: string[] = []
    await alice.subscribeReturns('alice', key.id, ({ stored: one }) => heard.push(one.sequence))
    await alice.subscribeIntermediateSteps('alice', ({ id }) => detours.push(id))
    const first = await stored(work(key))
    await bus.publish(guarded(bus.subjects.fence(key, key.subagent), key, 0))
    await bus.publish(back(key, 0))
    const last = await stored(back(key, first))
    await until(() => heard.length > 0 && detours.length > 0, { what: 'the return is heard' })
    expect(heard).toEqual([last])
    expect(detours).toContain(key.id)
  })

  test('a durable’s deliveries are answered by verdicts: kept, given back, and delivered again', async () => {
    const key = newKey()
    const seen: number[] = []
    const mine = (one: Delivery) => one.subject === bus.subjects.request(key.subagent, 'alice')
    await using _consumption = await bus.consume('dispatcher', async (one) => {
      if (!mine(one)) return { ok: true }
      seen.push(one.delivered)
      return one.delivered === 1 ? { retry: true } : { ok: true }
    })
    await stored({ subject: bus.subjects.request(key.subagent, 'alice'), data: TEXT.encode('x') })
    await until(() => seen.length === 2, { what: 'it is delivered again' })
    expect(seen).toEqual([1, 2])
  })

  test('requests can be refused, and returns are stored all the same', async () => {
    const key = newKey()
    const first = await stored(work(key))
    const request = { subject: bus.subjects.request(key.subagent, 'alice'), data: TEXT.encode('x') }
    await bus.setRequests('closed')
    expect((await bus.usage()).requests).toBe('closed')
    expect(await bus.publish(request)).toMatchObject({ kind: 'refused', reason: 'closed' })
    expect(await bus.publish(back(key, first))).toMatchObject({ kind: 'stored' })
    await bus.setRequests('open')
    expect(await bus.publish(request)).toMatchObject({ kind: 'stored' })
  })

  test('a lease that is renewed does not lapse', async () => {
    const key = newKey()
    await agent(key)
    await using source = bus.work(key.subagent, 'medium')
    await stored(work(key))
    const got: Delivery[] = []
    await source.pull(JUST_ONE, (one) => got.push(one))
    // Often, as a worker does: between two of them this process may get no processor for a second.
    for (let n = 0; n < 8; n += 1) {
      got[0]?.working()
      await source.pull({ batch: 1, expires_ms: LEASE_MS / 5 }, (one) => got.push(one))
    }
    expect(got.map(({ delivered }) => delivered)).toEqual([1])
  })

  test('questions are answered under the asker’s name, and nobody’s silence is an answer too', async () => {
    const bob = await home.open('bob')
    expect(await bob.ask({ op: 'time' }, { timeout_ms: 500 })).toBeUndefined()
    await using _answering = await bus.answer(async (asker, question) => ({ asker, question }))
    expect(await bob.ask({ op: 'time' })).toEqual({ asker: 'bob', question: { op: 'time' } })
  })
})
