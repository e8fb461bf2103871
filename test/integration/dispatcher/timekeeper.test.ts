import { HEADER, type PassKey } from '@passover/schemas'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { BUSY } from '../../support/builders/busy-policy.js'
import { CLOCK_MS, sequenceOf, World } from '../../support/dispatcher/dispatcher.js'
import { until } from '../../support/processes/until.js'

/** Others use this machine too: one end may be late by seconds, but not most of several that are due at different moments, three times over. */
const ANY_MS = 10_000
const MOSTLY_MS = 250
const ROUNDS = 3

/** How late each round's middle one is, until one is in time. Who looks but once a second is late by half of that, each time. */
async function mostly(round: () => Promise<number[]>): Promise<number> {
  const middles: number[] = []
  while (middles.length < ROUNDS && Math.min(...middles) >= MOSTLY_MS) {
    const late = (await round()).sort((a, b) => a - b)
    expect(late[0]).toBeGreaterThanOrEqual(-CLOCK_MS)
    expect(late.at(-1)).toBeLessThan(ANY_MS)
    middles.push(late[late.length >> 1] ?? Number.POSITIVE_INFINITY)
  }
  return Math.min(...middles)
}

async function parentOf(world: World, key: PassKey) {
  const journal = await world.state(key, 'open')
  const { return_id } = await world.work(key)
  return { ...key, return_id, proof: journal.valid }
}

describe('the timekeeper ends what nobody else ends', () => {
  let world: World
  beforeAll(async () => {
    world = await World.start({ dispatchers: [{ policy: BUSY }] })
    for (const name of ['audit', 'scout', 'fixer']) await world.agent(name)
  })
  afterAll(() => world[Symbol.asyncDispose]())

  test('admitted work at its deadline: E010 after the last step, within the bound', async () => {
    const lateness = async (timeout_ms: number) => {
      const end = await world.end(await world.ask({ timeout_ms }))
      if (end.journal.state !== 'done' || !end.journal.work) throw new Error('not done')
      expect(end.error).toMatchObject({
        code: 'E010',
        details: { timeout_ms, attempts: 0, mend: expect.stringMatching(/^to start a worker: passover work \S+ --/) },
      })
      expect(end.step).toMatchObject({ by: 'passover', attempt: 0, guard: { sequence: end.journal.work.sequence } })
      return end.step.time - (end.journal.work.time + timeout_ms)
    }
    // Time enough to be admitted: a request whose time is over before that has no work.
    expect(await mostly(() => Promise.all([2_500, 2_700, 2_900, 3_100, 3_300].map(lateness)))).toBeLessThan(MOSTLY_MS)
  })

  test('a return in time is the only one', async () => {
    const key = await world.ask({ timeout_ms: 3_000 })
    const journal = await world.state(key, 'open')
    sequenceOf(await world.step('return', key, { attempt: 1, guard: journal.last }))
    const other = await world.ask({ timeout_ms: 3_000 })
    await world.end(other)
    expect((await world.bus.journal.read(key)).map(({ kind, by }) => `${kind} ${by}`)).toEqual(['work medium', 'return audit'])
  })

  test('steps that a dishonest worker stores without a guard do not hold the end up', async () => {
    const key = await world.ask({ timeout_ms: 2_500 })
    await world.admitted(key)
    for (const attempt of [5, 9]) sequenceOf(await world.step('fence', key, { attempt }))
    sequenceOf(await world.step('return', key, { attempt: 7 }))
    const end = await world.end(key)
    expect(end).toMatchObject({ error: { code: 'E010' }, step: { by: 'passover' } })
  })

  test('a worker that fences without end cannot starve it', async () => {
    const key = await world.ask({ timeout_ms: 2_500 })
    await world.admitted(key)
    let fenced = 0
    let on = true
    const fencing = (async () => {
      for (let attempt = 2; on && attempt < 20_000; attempt++) {
        for (const _ of [1, 2, 3]) await world.step('fence', key, { attempt: attempt++ })
        fenced += 3
      }
    })()
    // Its journal soon is too long to be folded by a test, too.
    const last = await until(() => world.bus.journal.last(world.bus.subjects.return(key, 'passover')), { what: 'it ends' })
    on = false
    await fencing
    expect(fenced).toBeGreaterThan(5)
    expect(last.headers.get(HEADER.code)).toBe('E010')
  })

  test('a cancel ends the whole tree below it soon', async () => {
    const root = await world.ask({ to: 'audit' })
    const child = await world.ask({ from: 'audit', to: 'scout', parent: await parentOf(world, root) })
    const grandchild = await world.ask({ from: 'scout', to: 'fixer', parent: await parentOf(world, child) })
    await world.state(grandchild, 'open')
    const cancelled = await world.bus.journal.message(await world.cancel(root))
    for (const key of [root, child, grandchild]) {
      const end = await world.end(key)
      expect(end.error?.code).toBe('E043')
      expect(end.step.time - (cancelled?.time ?? 0)).toBeLessThan(ANY_MS)
    }
  })

  test('a cancel by the subagent is none', async () => {
    const key = await world.ask({ timeout_ms: 2_500 })
    await world.admitted(key)
    await world.cancel(key, 'audit')
    expect((await world.end(key)).error?.code).toBe('E010')
  })

  test("a parent's return ends its open child", async () => {
    const parent = await world.ask({ to: 'audit' })
    const proof = await parentOf(world, parent)
    const child = await world.ask({ from: 'audit', to: 'scout', parent: proof })
    await world.state(child, 'open')
    sequenceOf(await world.step('return', parent, { attempt: 1, guard: proof.proof }))
    const end = await world.end(child)
    expect(end.error).toMatchObject({ code: 'E043', details: { because: 'parent' } })
  })

  test('a fence ends the children of the earlier attempt, whose proof is then refused; the new attempt may have its own', async () => {
    const parent = await world.ask({ to: 'audit' })
    const proof = await parentOf(world, parent)
    const child = await world.ask({ from: 'audit', to: 'scout', parent: proof })
    await world.state(child, 'open')
    const fence = sequenceOf(await world.step('fence', parent, { attempt: 2, guard: proof.proof }))
    expect((await world.end(child)).error).toMatchObject({ code: 'E043' })
    expect((await world.end(await world.ask({ from: 'audit', to: 'scout', parent: proof }))).error?.code).toBe('E013')
    await world.state(await world.ask({ from: 'audit', to: 'scout', parent: { ...proof, proof: fence } }), 'open')
  })

  test('a JSON request is answered in JSON at its deadline', async () => {
    expect((await world.end(await world.ask({ form: 'json', timeout_ms: 200 }))).content_type).toBe('application/json')
  })

  test('1,000 passes that are due at the same moment all end, once each', async () => {
    const parent = await world.ask({ to: 'audit', timeout_ms: 150_000 })
    const proof = await parentOf(world, parent)
    const before = world.dispatchers[0]!.stats()
    const keys = await Promise.all(
      Array.from({ length: 1_000 }, () => world.ask({ from: 'audit', to: 'scout', timeout_ms: 150_000, parent: proof })),
    )
    await until(() => world.dispatchers[0]!.stats().admitted - before.admitted === 1_000, { what: 'all are admitted', deadline_ms: 60_000 })
    await world.cancel(parent)
    // The parent and its children are ended, and nothing else.
    await until(() => world.dispatchers[0]!.stats().ended - before.ended === 1_001, { what: 'all are ended', deadline_ms: 60_000 })
    const journals = await Promise.all(keys.map((key) => world.bus.journal.read(key)))
    const kinds = new Set(journals.map((steps) => steps.map(({ kind, code }) => `${kind} ${code}`).join()))
    expect([...kinds]).toEqual(['work undefined,return E043'])
  })
})

describe('requests that no dispatcher admits', () => {
  let world: World
  beforeAll(async () => {
    world = await World.start({ dispatchers: [{ admission: false, look_after_ms: 200 }] })
    await world.agent('audit')
  })
  afterAll(() => world[Symbol.asyncDispose]())

  test('end with E010 at their stored time plus their timeout, whatever their header says', async () => {
    const asked = [
      { timeout_ms: 900 },
      { timeout_ms: 1_200, headers: { [HEADER.timeout]: '100' } },
      { timeout_ms: 1_500, form: 'json' as const },
    ]
    const round = async () => {
      const keys = await Promise.all(asked.map((ask) => world.ask(ask)))
      const lateness: number[] = []
      for (const [at, key] of keys.entries()) {
        const end = await world.end(key)
        const request = await world.bus.journal.message(end.step.request ?? 0)
        expect(end.error).toMatchObject({ code: 'E010' })
        expect(end.step).toMatchObject({ guard: { sequence: 0 }, requested_at: request?.time })
        expect(end.step.digest).toMatch(/^[0-9a-f]{64}$/)
        lateness.push(end.step.time - ((request?.time ?? 0) + (asked[at]?.timeout_ms ?? 0)))
        expect(end.content_type).toBe(asked[at]?.form && 'application/json')
      }
      return lateness
    }
    expect(await mostly(round)).toBeLessThan(MOSTLY_MS)
  })

  test('stored while every dispatcher was down, and over when one is back: each has one end, E010, soon', async () => {
    await using down = await World.start({ dispatchers: [] })
    await down.agent('audit')
    const keys = await Promise.all(Array.from({ length: 20 }, () => down.ask({ timeout_ms: 500 })))
    const over = down.bus.now() + 600
    await until(() => down.bus.now() > over, { what: 'their time is over' })
    await down.dispatcher()
    for (const key of keys) {
      expect((await down.end(key, 30_000)).error?.code).toBe('E010')
      expect((await down.bus.journal.read(key)).filter(({ kind }) => kind === 'return')).toHaveLength(1)
    }
  })

  test('end at once when they are cancelled', async () => {
    const key = await world.ask({ timeout_ms: 20_000 })
    await world.cancel(key)
    const end = await world.end(key)
    expect(end.error?.code).toBe('E043')
    expect(end.step.digest).toMatch(/^[0-9a-f]{64}$/)
  })

  test('malformed ones are answered as bad-<sequence>', async () => {
    const bad = await world.send(Buffer.from('nonsense'))
    expect((await world.end(bad)).error?.code).toBe('E005')
  })

  test('one whose header names another id is ended under the id of its body', async () => {
    const key = await world.ask({ form: 'json', timeout_ms: 600 })
    expect((await world.end(key)).error?.code).toBe('E010')
    const { data } = world.request()
    const bad = await world.send(data, { headers: { [HEADER.id]: 'another-id-1' } })
    expect((await world.end(bad)).error?.code).toBe('E005')
  })

  test('a second request for an id with another digest is E005 once the first is ended', async () => {
    const id = world.id()
    await world.end(await world.ask({ id, timeout_ms: 300 }))
    const other = world.request({ id, reason: 'another' })
    const bad = await world.send(other.data, { headers: other.headers })
    expect((await world.end(bad)).error).toMatchObject({ code: 'E005', details: { reason: 'id_used' } })
  })
})

describe('work that the server gives up', () => {
  test('ends with E011, its attempts, and a dead letter', async () => {
    // The dispatcher keeps the consumers of a subagent as its policy says.
    const document = { subagents: { audit: { max_attempts: 2, lease_ms: 1_000 } } }
    await using world = await World.start({ dispatchers: [{ policy: { version: 0, document } }] })
    await world.bus.ensureAgent('audit', { subagent: true, max_attempts: 2, lease_ms: 1_000 })
    await world.agentRecord('audit')
    const key = await world.ask({ timeout_ms: 120_000 })
    const journal = await world.state(key, 'open')
    await using source = world.workSource('medium')
    let deliveries = 0
    const pulling = { on: true }
    const lost = (async () => {
      // A source that was closed fails at once.
      while (pulling.on) if ((await source.pull({ batch: 1, expires_ms: 500 }, () => void deliveries++)) === 'failed') return
    })()
    await until(() => deliveries >= 1, { what: 'the first delivery' })
    sequenceOf(await world.step('fence', key, { attempt: 2, guard: journal.last }))
    const end = await world.end(key)
    pulling.on = false
    await lost
    // Two attempts, and six deliveries that may begin none.
    expect(deliveries).toBe(8)
    expect(end.error).toMatchObject({ code: 'E011', details: { attempts: 2, deliveries: 8 } })
    const letter = await world.bus.journal.last(world.bus.subjects.event(key, 'dead_letter', 'passover'))
    expect(letter).toBeDefined()
  })
})
