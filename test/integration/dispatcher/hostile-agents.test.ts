import { jetstreamManager } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import { encode, splitContext } from '@passover/bus'
import { HEADER, type PassKey } from '@passover/schemas'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { CONTEXT, sequenceOf, World } from '../../support/dispatcher/dispatcher.js'
import { staysTrue, until } from '../../support/processes/until.js'

/** More steps than any honest journal has. */
const CROWD = 80

async function crowd(world: World, key: PassKey, kind: 'fence' | 'return' = 'fence'): Promise<void> {
  await Promise.all(Array.from({ length: CROWD }, () => world.step(kind, key, { attempt: 99 })))
}

describe('agents that store steps without end', () => {
  let world: World
  beforeAll(async () => {
    world = await World.start()
    for (const name of ['audit', 'scout', 'fixer']) await world.agent(name)
  })
  afterAll(() => world[Symbol.asyncDispose]())

  test('a parent with a journal too long to be read is refused, once it is known without a look', async () => {
    const parent = await world.ask({ to: 'audit', timeout_ms: 60_000 })
    const journal = await world.state(parent, 'open')
    const { return_id } = await world.work(parent)
    await crowd(world, parent)
    const ask = { from: 'audit', to: 'scout', parent: { ...parent, return_id, proof: journal.valid } }
    const children = await Promise.all(Array.from({ length: 50 }, () => world.ask(ask)))
    for (const child of children) expect((await world.end(child)).error?.code).toBe('E013')
    await world.work(await world.ask())
    expect(world.dispatchers[0]!.stats().retried).toBe(0)
  })

  test.each(['fence', 'return'] as const)(
    'a pass whose journal is full of %ss that count for nothing ends at its deadline',
    async (kind) => {
      const key = await world.ask({ timeout_ms: 3_000 })
      await world.admitted(key)
      await crowd(world, key, kind)
      const last = await until(() => world.bus.journal.last(world.bus.subjects.return(key, 'passover')), { what: 'it ends' })
      expect(last.headers.get(HEADER.code)).toBe('E010')
    },
  )

  test('a worker that returns without end, with an attempt that is none, cannot starve the end', async () => {
    const key = await world.ask({ timeout_ms: 2_500 })
    await world.admitted(key)
    let on = true
    const flood = Array.from({ length: 8 }, async () => {
      while (on) await world.step('return', key, { attempt: 9 })
    })
    const last = await until(() => world.bus.journal.last(world.bus.subjects.return(key, 'passover')), { what: 'it ends' })
    on = false
    await Promise.all(flood)
    expect(last.headers.get(HEADER.code)).toBe('E010')
  })

  test('an event with the id of a request as its dedupe id keeps nobody’s request out: that has none', async () => {
    const { key, ...request } = world.request()
    const subject = world.bus.subjects.event({ ...key, originator: 'mallory' }, 'cancel', 'mallory')
    sequenceOf(await world.bus.publish({ subject, headers: { 'Nats-Msg-Id': key.id }, data: encode({ v: 1 }) }))
    sequenceOf(await world.bus.publish(request))
    await world.state(key, 'open')
    // What is published twice is stored twice, and admitted once.
    sequenceOf(await world.bus.publish(request))
    await world.untilAcknowledged()
    expect(await world.journal(key)).toMatchObject({ state: 'open' })
  })

  test('an id whose journal was filled up before its request is refused', async () => {
    const { key, ...message } = world.request()
    await crowd(world, key)
    await world.bus.publish(message)
    const last = await until(() => world.bus.journal.last(world.bus.subjects.return(key, 'passover')), { what: 'it is refused' })
    expect(last.headers.get(HEADER.code)).toBe('E013')
    await world.work(await world.ask())
  })

  test('large parts of what is refused are not stored', async () => {
    const content = 'r'.repeat(300_001)
    const work_context = { ...CONTEXT, files: [{ path: 'big.txt', content }] }
    const key = await world.ask({ form: 'json', from: 'mallory', to: 'nobody-here', work_context })
    expect((await world.end(key)).error?.code).toBe('E001')
    const part = splitContext(work_context).parts.find(({ name }) => name === 'file:big.txt')
    if (!part) throw new Error('no part')
    const { data: _, ...stored } = part
    await expect(world.bus.parts.fetch({ ...stored, owner: 'mallory' })).rejects.toThrow()
    const nc = await connect({ servers: world.nats.servers })
    const names = await (await jetstreamManager(nc)).streams.names().next()
    await nc.close()
    expect(names).not.toContain('OBJ_parts_mallory')
  })
})

test('without a dispatcher: a request whose journal is filled up ends at its deadline', async () => {
  await using world = await World.start({ dispatchers: [{ admission: false, look_after_ms: 200 }] })
  await world.agent('audit')
  const { key, ...message } = world.request({ form: 'json', timeout_ms: 800 })
  await crowd(world, key)
  await world.bus.publish(message)
  const last = await until(() => world.bus.journal.last(world.bus.subjects.return(key, 'passover')), { what: 'it ends' })
  expect(last.headers.get(HEADER.code)).toBe('E010')
})

test('the durable of the dispatchers is lost: it is made again, and each request is admitted once', async () => {
  await using world = await World.start()
  await world.agent('audit')
  await world.work(await world.ask())
  const nc = await connect({ servers: world.nats.servers })
  await (await jetstreamManager(nc)).consumers.delete('PASSOVER', 'dispatcher')
  await nc.close()
  const keys = await Promise.all(Array.from({ length: 20 }, () => world.ask({ timeout_ms: 60_000 })))
  for (const key of keys) await world.state(key, 'open')
  for (const key of keys) expect(await world.bus.journal.read(key)).toHaveLength(1)
})

describe('decisions', () => {
  const HOLD = { hold_before_dispatch: true }

  async function heldPass(world: World): Promise<{ key: PassKey; digest: string }> {
    const key = await world.ask({ override: HOLD })
    const journal = await world.state(key, 'held')
    if (journal.state !== 'held' || !journal.held.digest) throw new Error('not held')
    return { key, digest: journal.held.digest }
  }

  test('of a registered agent, of either party, and with headers that say otherwise do not count', async () => {
    await using world = await World.start({ dispatchers: [{ redrive_ms: 300 }] })
    for (const name of ['audit', 'scout']) await world.agent(name)
    const { key, digest } = await heldPass(world)
    for (const person of ['scout', 'audit', 'alice']) await world.decide(key, { person, digest })
    const body = { v: 1, verdict: 'approve', digest }
    sequenceOf(
      await world.bus.publish({
        subject: world.bus.subjects.decision(key, 'dispatch', 'olga'),
        headers: { [HEADER.verdict]: 'deny' },
        data: encode(body, 'msgpack'),
      }),
    )
    await world.untilAcknowledged()
    await staysTrue(async () => (await world.journal(key)).state === 'held', { what: 'it stays held', for_ms: 700 })
    await world.decide(key, { person: 'pat', digest })
    await world.state(key, 'open')
  })

  test('that every dispatcher gave up are driven on by the timekeeper, also after a restart', async () => {
    await using world = await World.start({ dispatchers: [{}] })
    await world.agent('audit')
    const held = [await heldPass(world), await heldPass(world)]
    await world.dispatchers[0]!.drain()
    for (const { key, digest } of held) await world.decide(key, { digest, verdict: key === held[0]?.key ? 'approve' : 'deny' })
    // What the durable gave up is delivered to nobody any more.
    await using _lost = await world.bus.consume('dispatcher_decisions', async () => ({ ok: true }))
    await world.untilAcknowledged()
    const patient = await world.dispatcher({ admission: false, redrive_ms: 600_000 })
    await until(() => patient.stats().open === 2, { what: 'both are known' })
    await until(async () => patient.stats().position >= (await world.bus.bounds()).last, { what: 'all is read' })
    await patient.drain()
    await world.dispatcher({ admission: false, redrive_ms: 300 })
    await world.state(held[0]!.key, 'open')
    expect((await world.end(held[1]!.key)).error).toMatchObject({ code: 'E013', details: { approval: 'denied' } })
  })
})
