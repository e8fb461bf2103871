import { decode, encode } from '@passover/bus'
import { HEADER, type Part } from '@passover/schemas'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { CONTEXT, World } from '../../support/dispatcher/dispatcher.js'
import { until } from '../../support/processes/until.js'

test('a request that cannot be read waits for an earlier one of its id, and does not end it', async () => {
  let open = () => {}
  const gate = new Promise<void>((resolve) => {
    open = resolve
  })
  await using world = await World.start({ faults: { at: async (point) => (point === 'admission:before-publish' ? gate : undefined) } })
  await world.agent('audit')
  const good = world.request()
  await world.bus.publish(good)
  const second = await world.send(Buffer.from('{"v": 2'), { headers: good.headers })
  const stats = () => world.dispatchers[0]?.stats() ?? { position: 0, retried: 0 }
  await until(() => stats().position >= second.sequence, { what: 'the timekeeper has read both' })
  // Twice: one look may have begun before that.
  const { retried } = stats()
  await until(() => stats().retried >= retried + 2, { what: 'the second one waits' })
  open()
  expect((await world.end(second)).error?.code).toBe('E005')
  expect((await world.state(good.key, 'open')).state).toBe('open')
})

describe('admission on one dispatcher', () => {
  let world: World
  beforeAll(async () => {
    world = await World.start()
    for (const name of ['audit', 'scout', 'fixer', 'last']) await world.agent(name)
  })
  afterAll(() => world[Symbol.asyncDispose]())

  test('a request becomes work of its priority, with control frame, headers and untouched parts', async () => {
    const { key, ...message } = world.request({
      priority: 'high',
      timeout_ms: 20_000,
      headers: { [HEADER.traceparent]: `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01` },
    })
    const outcome = await world.bus.publish(message)
    const control = await world.work(key)
    const journal = await world.journal(key)
    if (journal.state !== 'open' || outcome.kind !== 'stored') throw new Error('not open')
    expect(journal.work).toMatchObject({
      by: 'high',
      request: outcome.sequence,
      timeout_ms: 20_000,
      guard: { sequence: 0 },
      digest: control.digest,
    })
    expect(control).toMatchObject({
      id: key.id,
      chain_depth: 1,
      ancestors: ['alice'],
      session_id: 's1',
      reply_type: 'msgpack',
      trace_id: 'a'.repeat(32),
    })
    const stored = await world.bus.journal.message(journal.work.sequence)
    expect(stored?.headers.get(HEADER.traceparent)).toContain('a'.repeat(32))
    const body = (await world.body(journal.work.sequence)) as { parts: unknown }
    const sent = decode(message.data, undefined)
    expect(encode(body.parts)).toEqual(encode(sent.ok && (sent.value as { parts: unknown }).parts))
  })

  test('plain JSON from a shell is admitted, and refused in kind', async () => {
    const key = await world.ask({ form: 'json' })
    expect(await world.work(key)).toMatchObject({ reply_type: 'json' })
    const refused = await world.end(await world.ask({ form: 'json', to: 'nobody-here' }))
    expect(refused).toMatchObject({ error: { code: 'E001' }, content_type: 'application/json' })
  })

  test.each([
    ['E001 for an unknown subagent', { to: 'ghost' }, 'E001'],
    ['E003 for a pass to itself', { from: 'alice', to: 'alice' }, 'E003'],
    ['E013 for an agent that may start only within a pass', { from: 'audit', to: 'scout' }, 'E013'],
    ['E013 for an override that widens', { override: { auto_apply: true } }, 'E013'],
    ['E012 for a context over its limit', { override: { max_context_size_bytes: 10 } }, 'E012'],
  ] as const)('%s', async (_, ask, code) => {
    const key = await world.ask(ask)
    const end = await world.end(key)
    expect(end.error?.code).toBe(code)
    expect(end.step).toMatchObject({ by: 'passover', attempt: 0, guard: { sequence: 0 } })
    // Rule 6: a refusal carries the digest of what it refuses.
    expect(end.step.digest).toMatch(/^[0-9a-f]{64}$/)
    expect(end.step.request).toBeGreaterThan(0)
  })

  test('E005 for an id from the future, and for an expired one', async () => {
    const future = await world.end(await world.ask({ id: world.id(world.bus.now() + 600_000) }))
    expect(future.error).toMatchObject({ code: 'E005' })
    const past = await world.end(await world.ask({ id: world.id(world.bus.now() - 3_700_000) }))
    expect(past.error).toMatchObject({ code: 'E005', details: { expired: true } })
    // Rule 5: it answers the request although it is late.
    expect(past.journal.state).toBe('done')
  })

  test('the same id with the same digest is one work; with another one E005, and the first untouched', async () => {
    const id = world.id()
    const key = await world.ask({ id })
    const control = await world.work(key)
    await world.ask({ id })
    await until(() => (world.dispatchers[0]?.stats().repeated ?? 0) >= 1, { what: 'the repeat is acknowledged' })
    const other = world.request({ id, reason: 'something else' })
    const bad = await world.send(other.data, { headers: other.headers })
    expect((await world.end(bad)).error).toMatchObject({ code: 'E005', details: { reason: 'id_used' } })
    const steps = await world.bus.journal.read(key)
    expect(steps).toHaveLength(1)
    expect(steps[0]?.digest).toBe(control.digest)
    // A taken id is no poison: no dead letter.
    expect(await world.bus.journal.last(world.bus.subjects.event(bad, 'dead_letter', 'passover'))).toBeUndefined()
  })

  test('subject, header and body must agree: E005 to the originator of the subject, nothing to the named one', async () => {
    const named = world.request({ from: 'bob' })
    const bad = await world.send(named.data, { from: 'alice', headers: named.headers })
    expect((await world.end(bad)).error).toMatchObject({ code: 'E005', details: { field: 'originating_agent_id' } })
    expect(await world.bus.journal.read(named.key)).toEqual([])
  })

  test('malformed bytes end as bad-<sequence> and are kept', async () => {
    const bytes = Buffer.from('{"id": "x"')
    const bad = await world.send(bytes)
    const end = await world.end(bad)
    expect(end).toMatchObject({ error: { code: 'E005' }, content_type: 'application/json' })
    expect(end.step.request).toBe(bad.sequence)
    const letter = await until(() => world.bus.journal.last(world.bus.subjects.event(bad, 'dead_letter', 'passover')), {
      what: 'the dead letter',
    })
    const body = decode(letter.data, undefined)
    expect(body.ok && body.value).toMatchObject({ sequence: bad.sequence, error: { code: 'E005' } })
    expect(Buffer.from((body.ok && (body.value as { bytes: Uint8Array }).bytes) || [])).toEqual(bytes)
  })

  test('says of a first step behind one that counts for nothing that it is the first, whether it admits or refuses', async () => {
    const [good, newer] = [world.request(), world.request()]
    for (const { key } of [good, newer]) await world.step('return', key, { attempt: 9 })
    await world.send(good.data, { headers: good.headers })
    await world.send(encode({ ...(decodeBody(newer.data) as object), v: 2 }, 'msgpack'), { headers: newer.headers })
    await world.work(good.key)
    const work = (await world.bus.journal.read(good.key)).find(({ kind }) => kind === 'work')
    expect(work).toMatchObject({ first: true })
    expect((await world.end(newer.key)).step).toMatchObject({ by: 'passover', first: true })
  })

  test('refuses what it cannot read under the id in its header, once, and ends no other request for that id with it', async () => {
    const asked = world.request()
    const newer = encode({ ...(decodeBody(asked.data) as object), v: 2 }, 'msgpack')
    const first = await world.send(newer, { headers: asked.headers })
    const end = await world.end(asked.key)
    expect(end.error).toMatchObject({ code: 'E005', details: { reason: 'wire_version', version: 2, reads: 1 } })
    expect(end.error?.message).toContain('upgrade the dispatcher')
    expect(end.step.request).toBe(first.sequence)
    expect(await world.bus.journal.read(first)).toEqual([])

    // A body that names another pass, and another agent's id: neither is believed.
    const other = world.request({ from: 'bob' })
    await world.bus.publish(other)
    const hostile = await world.send(newer, { from: 'mallory', headers: other.headers })
    expect((await world.end(hostile)).error?.code).toBe('E005')
    await world.send(Buffer.from('{"v": 2, "request": 1'), { from: 'mallory', headers: other.headers })
    await world.end({ ...other.key, originator: 'mallory' })
    expect((await world.state(other.key, 'open')).state).toBe('open')
  })

  test('a reserved id and a subject with tokens that are no names do not stall it', async () => {
    const reserved = world.request({})
    const data = encode(
      { ...(decodeBody(reserved.data) as object), request: { ...requestOf(reserved.data), id: 'bad-000000001' } },
      'msgpack',
    )
    expect((await world.end(await world.send(data))).error?.code).toBe('E005')
    const outcome = await world.bus.publish({ subject: 'request.$x!.-y', data: reserved.data })
    if (outcome.kind !== 'stored') throw new Error('not stored')
    const nobody = { originator: 'nobody', subagent: 'nobody', id: world.bus.subjects.badId(outcome.sequence) }
    expect((await world.end(nobody)).error?.code).toBe('E005')
    await world.work(await world.ask())
  })

  test('a file over the threshold in plain JSON travels by reference', async () => {
    const content = 'x'.repeat(300_000)
    const key = await world.ask({ form: 'json', work_context: { ...CONTEXT, files: [{ path: 'big.txt', content }] } })
    const journal = await world.state(key, 'open')
    if (journal.state !== 'open') throw new Error('not open')
    const { parts } = (await world.body(journal.work.sequence)) as { parts: Part[] }
    const part = parts.find(({ name }) => name === 'file:big.txt')
    expect(part).toMatchObject({ owner: 'alice', size: 300_000 })
    expect(part?.data).toBeUndefined()
    if (!part) throw new Error('no part')
    expect(Buffer.from(await world.bus.parts.fetch(part)).toString()).toBe(content)
  })

  test('P3: depth, loops and forged parents', async () => {
    const root = await world.ask({ from: 'alice', to: 'audit' })
    const first = await parentOf(world, root)
    const child = await world.ask({ from: 'audit', to: 'scout', parent: first })
    expect(await world.work(child)).toMatchObject({ chain_depth: 2, ancestors: ['alice', 'audit'], root })
    const second = await parentOf(world, child)
    const third = await world.ask({ from: 'scout', to: 'fixer', parent: second })
    expect(await world.work(third)).toMatchObject({ chain_depth: 3 })
    const deep = await world.end(await world.ask({ from: 'fixer', to: 'last', parent: await parentOf(world, third) }))
    expect(deep.error?.code).toBe('E002')
    const loop = await world.end(await world.ask({ from: 'fixer', to: 'audit', parent: await parentOf(world, third), override: {} }))
    expect(loop.error).toMatchObject({ code: 'E003' })
    expect(loop.error?.message).toContain('alice → audit → scout → fixer → [audit]')
    const pingPong = await world.end(await world.ask({ from: 'audit', to: 'alice', parent: first }))
    expect(['E001', 'E003']).toContain(pingPong.error?.code)

    const forged = [
      { ...first, return_id: 'guessed' },
      { ...first, proof: first.proof + 1 },
      { ...first, id: world.id() },
      { ...second },
      { ...first, originator: 'bob' },
    ]
    for (const parent of forged) {
      const end = await world.end(await world.ask({ from: 'audit', to: 'scout', parent }))
      expect(end.error?.code, JSON.stringify(parent)).toBe('E013')
    }
  })

  test('a child never outlives its parent', async () => {
    const parent = await world.ask({ to: 'audit', timeout_ms: 20_000 })
    const child = await world.ask({ from: 'audit', to: 'scout', timeout_ms: 100_000, parent: await parentOf(world, parent) })
    expect((await world.work(child)).timeout_ms).toBeLessThanOrEqual(20_000)
  })
})

async function parentOf(world: World, key: { originator: string; subagent: string; id: string }) {
  const journal = await world.state(key, 'open')
  const { return_id } = await world.work(key)
  return { ...key, return_id, proof: journal.valid }
}

function decodeBody(data: Uint8Array): unknown {
  const decoded = decode(data, undefined)
  return decoded.ok ? decoded.value : undefined
}

function requestOf(data: Uint8Array): object {
  return (decodeBody(data) as { request: object }).request
}
