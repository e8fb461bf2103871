import { randomUUID } from 'node:crypto'
import { SEGMENT_SIZE } from '@passover/archive'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { fillTo } from '../../support/assertions/stream.js'
import { AgentWorld } from '../../support/dispatcher/agents.js'
import { staysTrue, until } from '../../support/processes/until.js'

let world: AgentWorld
beforeAll(async () => {
  world = await AgentWorld.start()
})
afterAll(async () => {
  await world?.[Symbol.asyncDispose]()
})

const work_context = { objective: 'count' }

describe('asking twice', () => {
  it('the same id 50 times from 5 clients: one execution, the same result', async () => {
    const clients = await Promise.all(Array.from({ length: 5 }, () => world.agent('alice')))
    const counter = await world.agent('counter')
    let runs = 0
    await using _worker = await counter.onPass(async () => {
      runs += 1
      await new Promise((later) => setTimeout(later, 300))
      return `run ${runs}`
    })
    const id = `order-${randomUUID()}`.slice(0, 40)
    const all = await Promise.all(
      Array.from({ length: 50 }, (_, n) => clients[n % 5]!.passOver({ subagent: 'counter', reason: 'once', work_context, id })),
    )
    expect(runs).toBe(1)
    expect(new Set(all.map((output) => output.output))).toEqual(new Set(['run 1']))
    // Later, too, and without asking for it again.
    expect((await clients[0]!.passOver({ subagent: 'counter', reason: 'once', work_context, id })).output).toBe('run 1')
    expect((await clients[1]!.handle(id, 'counter')).output).toBe('run 1')
    expect(['returned', 'processed']).toContain(await clients[2]!.handle(id, 'counter').status())
    expect(runs).toBe(1)
  })

  it('the same id with another request: E005, the first untouched', async () => {
    const [alice, other] = [await world.agent('alice'), await world.agent('alice')]
    const keeper = await world.agent('keeper')
    let release: (text: string) => void = () => undefined
    await using _worker = await keeper.onPass(
      () =>
        new Promise<string>((resolve) => {
          release = resolve
        }),
    )
    const id = randomUUID()
    const first = alice.passOver({ subagent: 'keeper', reason: 'one', work_context, id })
    await first.stored
    await expect(other.passOver({ subagent: 'keeper', reason: 'two', work_context, id })).rejects.toMatchObject({
      code: 'E005',
      context: { field: 'id' },
    })
    let settled = false
    void first.then(() => {
      settled = true
    })
    await staysTrue(() => !settled, { what: 'the first still runs', for_ms: 300 })
    release('done')
    expect((await first).output).toBe('done')
    await expect(other.passOver({ subagent: 'keeper', reason: 'one', work_context: { objective: 'other' }, id })).rejects.toMatchObject({
      code: 'E005',
    })
  })

  it('two requests with one id at the same moment: one wins, the other hears E005', async () => {
    const [one, two] = [await world.agent('alice'), await world.agent('alice')]
    const racer = await world.agent('racer')
    await using _worker = await racer.onPass((pass) => pass.reason)
    const id = randomUUID()
    const results = await Promise.allSettled([
      one.passOver({ subagent: 'racer', reason: 'a', work_context, id }),
      two.passOver({ subagent: 'racer', reason: 'b', work_context, id }),
    ])
    const won = results.filter((result) => result.status === 'fulfilled')
    const lost = results.filter((result) => result.status === 'rejected')
    expect([won.length, lost.length]).toEqual([1, 1])
    expect(lost[0]?.reason).toMatchObject({ code: 'E005' })
  })

  it('an id that nobody asked for is E041', async () => {
    const alice = await world.agent('alice')
    await expect(alice.handle(randomUUID(), 'counter').status()).rejects.toMatchObject({ code: 'E041' })
    await expect(alice.handle(randomUUID(), 'counter')).rejects.toMatchObject({ code: 'E041' })
  })

  it('an id older than the window is E005 expired', async () => {
    const alice = await world.agent('alice')
    const old = world.world.id(world.world.bus.now() - 2 * 3_600_000)
    await expect(alice.passOver({ subagent: 'counter', reason: 'x', work_context, id: old })).rejects.toMatchObject({ code: 'E005' })
  })

  it('an expired id whose request is stored once more, after its pass was deleted, still gives its result', async () => {
    const id_window_ms = 1_000
    await using short = await AgentWorld.start({ dispatchers: [], audit: false })
    const { bus } = short.world
    await bus.ensureTopology({ id_window_ms })
    await short.world.dispatcher({ id_window_ms })
    await short.audit({ id_window_ms })
    const alice = await short.agent('alice')
    const once = await short.agent('once')
    await using _worker = await once.onPass(() => 'the result')
    const { key, ...request } = short.world.request({ from: 'alice', to: 'once' })
    await bus.publish(request)
    expect((await alice.handle(key.id, 'once')).output).toBe('the result')
    await fillTo(bus, SEGMENT_SIZE)
    await until(async () => (await bus.journal.read(key)).length === 0, {
      what: 'the audit has archived and deleted it',
      deadline_ms: 60_000,
    })
    await bus.publish(request)
    const refusal = await short.world.end(key)
    expect(refusal.error?.code).toBe('E005')
    const late = await short.agent('alice')
    expect((await late.handle(key.id, 'once')).output).toBe('the result')
    // Where nothing ever had the id, the refusal is all there is.
    const other = { ...key, id: short.world.id(bus.now() - 10 * id_window_ms) }
    await short.world.ask({ from: 'alice', to: 'once', id: other.id })
    await short.world.end(other)
    await expect(late.handle(other.id, 'once')).rejects.toMatchObject({ code: 'E005' })
  })

  it('return_required false: nobody waits, the return is stored all the same', async () => {
    const alice = await world.agent('alice')
    const quiet = await world.agent('quiet')
    await using _worker = await quiet.onPass(() => 'silently')
    const handle = alice.passOver({ subagent: 'quiet', reason: 'x', work_context, return_required: false })
    await handle.stored
    expect(alice.awaited).toBe(0)
    expect((await handle).output).toBe('silently')
  })
})
