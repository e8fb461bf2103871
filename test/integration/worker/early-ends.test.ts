import { encode } from '@passover/bus'
import { type AgentPairOverride, HEADER, type PassKey } from '@passover/schemas'
import type { FaultPoint, Faults } from '@passover/sdk/internal'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { AgentWorld } from '../../support/dispatcher/agents.js'
import { sequenceOf } from '../../support/dispatcher/dispatcher.js'
import { staysTrue, until } from '../../support/processes/until.js'

let world: AgentWorld
beforeAll(async () => {
  world = await AgentWorld.start({ dispatchers: [{ policy: { version: 1, document: { subagents: { once: { max_attempts: 1 } } } } }] })
})
afterAll(async () => {
  await world?.[Symbol.asyncDispose]()
})

const work_context = { objective: 'do it' }
const keyOf = (subagent: string, id: string): PassKey => ({ originator: 'alice', subagent, id })

/** Stops whoever comes to a point until it is let go. */
function gateAt(point: FaultPoint) {
  let open: () => void = () => undefined
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
  const gate: Faults & { hits: number; open: () => void } = {
    hits: 0,
    open: () => open(),
    async at(here) {
      if (here !== point) return
      gate.hits += 1
      await opened
    },
  }
  return gate
}

/** Makes an agent's consumers, so that work can be stored before its worker is there. */
async function registered(name: string): Promise<void> {
  const agent = await world.agent(name)
  await (await agent.onPass(() => 'x')).drain()
  await world.die(agent)
}

describe('work that is over before it began', () => {
  it('a pass that is ended while its attempt is still being begun never runs', async () => {
    await registered('slow')
    const alice = await world.agent('alice')
    const handle = alice.passOver({ subagent: 'slow', reason: 'x', work_context })
    await world.world.work(keyOf('slow', handle.id))
    const gate = gateAt('worker:after-fence')
    const slow = await world.agent('slow', gate)
    let runs = 0
    const worker = await slow.onPass(() => {
      runs += 1
      return 'ran'
    })
    await until(() => gate.hits === 1, { what: 'the attempt is being begun' })
    // What its worker hears comes on the same connection.
    let ended = false
    await using _hearing = await world.buses.get(slow)?.subscribeTerminations('slow', () => {
      ended = true
    })
    await handle.cancel()
    await expect(handle).rejects.toMatchObject({ code: 'E043' })
    await until(() => ended, { what: 'its worker hears of it' })
    gate.open()
    await until(() => worker.running === 0, { what: 'it is over' })
    expect(runs).toBe(0)
  })

  it('an attempt that is being begun while its worker is drained is handed back and not run', async () => {
    await registered('leaving')
    const alice = await world.agent('alice')
    const handle = alice.passOver({ subagent: 'leaving', reason: 'x', work_context })
    await world.world.work(keyOf('leaving', handle.id))
    const gate = gateAt('worker:after-fence')
    const first = await world.agent('leaving', gate)
    let runs = 0
    const worker = await first.onPass(() => {
      runs += 1
      return 'ran'
    })
    await until(() => gate.hits === 1, { what: 'the attempt is being begun' })
    const drained = worker.drain(0)
    await new Promise((later) => setTimeout(later, 300))
    gate.open()
    await drained
    expect(runs).toBe(0)
    const second = await world.agent('leaving')
    await using _worker = await second.onPass((pass) => `second ${pass.attempt}`)
    expect((await handle).output).toBe('second 3')
  })

  it('runs work with a single attempt that was stored before its worker connected, once', async () => {
    await registered('once')
    const alice = await world.agent('alice')
    const handle = alice.passOver({ subagent: 'once', reason: 'x', work_context, timeout_ms: 60_000 })
    expect((await world.world.work(keyOf('once', handle.id))).max_attempts).toBe(1)
    const once = await world.agent('once')
    let runs = 0
    await using _worker = await once.onPass(() => {
      runs += 1
      return 'ran'
    })
    expect((await handle).output).toBe('ran')
    expect(runs).toBe(1)
  })

  it('leaves a work step that was stored too late for its id alone, young as its delivery is (rule 5)', async () => {
    const late = await world.agent('late')
    let runs = 0
    await using _worker = await late.onPass(() => {
      runs += 1
      return 'ran'
    })
    const alice = await world.agent('alice')
    const handle = alice.passOver({ subagent: 'late', reason: 'x', work_context })
    await handle
    expect(runs).toBe(1)
    const { bus } = world.world
    const work = bus.subjects.work(keyOf('late', handle.id), 'medium')
    const stored = await bus.journal.last(work)
    const body = { ...((await world.world.body(stored?.sequence ?? 0)) as { control: Record<string, unknown> }) }
    const key = keyOf('late', world.world.id(bus.now() - 3_700_000))
    body.control = { ...body.control, id: key.id, requested_at: bus.now() - 3_700_000 }
    // As a dispatcher does that slept for an hour between its look at the clock and its publish.
    await bus.publish({
      subject: bus.subjects.work(key, 'medium'),
      headers: { [HEADER.nonce]: 'late', [HEADER.timeout]: '30000' },
      data: encode(body),
      guard: { subject: bus.subjects.journal(key), sequence: 0 },
    })
    await staysTrue(() => runs === 1, { what: 'it does not run', for_ms: 1_500 })
  })
})

describe('returns that no reader of the journal counts', () => {
  /** A worker that never answers, and a connection that plays it by hand. */
  async function puppet(name: string, override?: AgentPairOverride) {
    await registered(name)
    const alice = await world.agent('alice')
    const handle = alice.passOver({ subagent: name, reason: 'x', work_context, timeout_ms: 4_000, override })
    const settled = handle.then(
      () => 'output',
      (error: { code: string }) => error.code,
    )
    await handle.stored
    return { key: keyOf(name, handle.id), settled }
  }

  it('a guarded return of an attempt that never began is not believed: the pass ends as the stream says', async () => {
    const { key, settled } = await puppet('wrong-attempt')
    const { last } = await world.world.state(key, 'open')
    sequenceOf(await world.world.step('return', key, { attempt: 7, guard: last }))
    expect(await settled).toBe('E010')
    expect((await world.world.end(key)).step.code).toBe('E010')
  })

  it('nor is a guarded return of the first attempt that follows a fence', async () => {
    const { key, settled } = await puppet('fencer')
    const { last } = await world.world.state(key, 'open')
    const fence = sequenceOf(await world.world.step('fence', key, { attempt: 2, guard: last }))
    sequenceOf(await world.world.step('return', key, { attempt: 1, guard: fence }))
    expect(await settled).toBe('E010')
    expect((await world.world.end(key)).step.code).toBe('E010')
  })

  it('nor one that comes while the pass is held: nobody`s approval is got around', async () => {
    const { key, settled } = await puppet('gated', { hold_before_dispatch: true })
    const { last } = await world.world.state(key, 'held')
    sequenceOf(await world.world.step('return', key, { attempt: 1, guard: last }))
    let over = false
    void settled.then(() => {
      over = true
    })
    await staysTrue(() => !over, { what: 'it is not taken', for_ms: 1_500 })
    expect((await world.world.journal(key)).state).toBe('held')
  })

  it('an honest return is still believed unread', async () => {
    const alice = await world.agent('alice')
    const plain = await world.agent('plain')
    await using _worker = await plain.onPass(() => 'ok')
    const own = world.buses.get(alice)
    if (!own) throw new Error('no bus')
    let glimpses = 0
    const glimpse = own.journal.glimpse.bind(own.journal)
    own.journal.glimpse = (key) => {
      glimpses += 1
      return glimpse(key)
    }
    const ask = async () => (await alice.passOver({ subagent: 'plain', reason: 'x', work_context })).output
    // The first one tells under which terms this subagent returns (docs/architecture/worker.md#output-schemas).
    expect(await ask()).toBe('ok')
    glimpses = 0
    expect(await ask()).toBe('ok')
    expect(glimpses).toBe(0)
  })
})
