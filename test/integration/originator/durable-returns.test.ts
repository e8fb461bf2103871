import { randomUUID } from 'node:crypto'
import { type ConsumerAPI, jetstreamManager } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import { encode } from '@passover/bus'
import { HEADER, sha256 } from '@passover/schemas'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { AgentWorld } from '../../support/dispatcher/agents.js'
import { durable, listener, shownPass, untilSend } from '../../support/fixtures/delivery.js'
import { staysTrue, until } from '../../support/processes/until.js'

/** Returns that wait for an originator that was away (openclaw#142445). */
let all: AgentWorld
let runs = 0
const gates = new Map<string, () => void>()
beforeAll(async () => {
  all = await AgentWorld.start({ dispatchers: [{ consumers_ms: 500 }] })
  const worker = await all.agent('slow')
  const mallory = await all.agent('mallory')
  await mallory.onPass((pass) => new Promise<string>((resolve) => gates.set(pass.id, () => resolve(`for ${pass.id}`))))
  await worker.onPass(
    (pass) => {
      runs += 1
      if (pass.reason === 'now') return 'at once'
      if (pass.reason === 'grave') return { artifacts: [{ type: 'finding', severity: 'error', category: 'c', message: 'm' }] }
      return new Promise<string>((resolve) => gates.set(pass.id, () => resolve(`for ${pass.id}`)))
    },
    { concurrency: 64 },
  )
})
afterAll(() => all?.[Symbol.asyncDispose]())

const asks = (reason = 'later', more: object = {}) => ({
  subagent: 'slow',
  reason,
  work_context: { objective: 'o' },
  timeout_ms: 300_000,
  ...more,
})

async function release(id: string): Promise<void> {
  const open = await until(() => gates.get(id), { what: 'the handler runs', deadline_ms: 30_000 })
  open()
}

async function onServer<T>(work: (consumers: ConsumerAPI) => Promise<T>): Promise<T> {
  const nc = await connect({ servers: all.world.nats.servers })
  try {
    return await work((await jetstreamManager(nc)).consumers)
  } finally {
    await nc.close()
  }
}

const wait = { deadline_ms: 40_000 }

describe('a return whose originator is away', () => {
  it('is told once when it is back; asking again with the id gives the stored result, without a second run', async () => {
    const before = await durable(all, 'alice')
    const id = randomUUID()
    const made = before.agent.passOver(asks())
    const given = before.agent.passOver(asks('later', { id }))
    await Promise.all([made.stored, given.stored])
    await Promise.all([
      all.world.work({ originator: 'alice', subagent: 'slow', id: made.id }),
      until(() => gates.get(id), { what: 'it runs', ...wait }),
    ])
    await before.die()
    for (const one of [made.id, id]) await release(one)
    for (const one of [made.id, id]) await untilSend(all, one, 'delivered')
    const ran = runs
    const since = performance.now()
    await using back = await durable(all, 'alice')
    const heard = listener()
    const noticed = listener()
    const stop = back.agent.onReturn(noticed.hears)
    await back.agent.onDurableReturn(heard.hears)
    await until(() => heard.told.length >= 2, { what: 'both are told', ...wait })
    // An earlier process asked for them: they are told to one of the two.
    expect(noticed.told).toEqual([])
    stop()
    console.log(`two returns that waited were told ${Math.round(performance.now() - since)} ms after their originator began to come back`)
    expect(heard.ids()).toEqual([made.id, id].sort())
    expect(heard.told.find(({ pass }) => pass.id === id)?.output?.output).toBe(`for ${id}`)
    for (const one of [made.id, id]) await untilSend(all, one, 'acknowledged')
    expect((await back.agent.passOver(asks('later', { id }))).output).toBe(`for ${id}`)
    await using third = await durable(all, 'alice')
    const later = listener()
    await third.agent.onDurableReturn(later.hears)
    await untilTaken('alice')
    expect([heard.told.length, later.told.length, runs]).toEqual([2, 0, ran])
  })

  it('goes to whoever waits for it live, and is not told besides', async () => {
    await using one = await durable(all, 'bob')
    await using other = await durable(all, 'bob')
    const heard = listener()
    await one.agent.onDurableReturn(heard.hears)
    await other.agent.onDurableReturn(heard.hears)
    const outputs = await Promise.all([one, other].flatMap(({ agent }) => Array.from({ length: 10 }, () => agent.passOver(asks('now')))))
    expect(outputs.map(({ output }) => output)).toEqual(new Array(20).fill('at once'))
    // One that waits for a person is still waited for, however long.
    const held = one.agent.passOver(asks('grave'))
    await until(async () => (await held.status()) === 'awaiting_release', { what: 'it awaits release', ...wait })
    await staysTrue(() => heard.told.length === 0, { what: 'nobody is told', for_ms: 4_000 })
    const { bus } = all.world
    const key = { originator: 'bob', subagent: 'slow', id: held.id }
    const stored = await bus.journal.last(bus.subjects.return(key, 'slow'))
    const body = { v: 1, verdict: 'approve', digest: sha256(stored?.data ?? new Uint8Array()) }
    await bus.publish({ subject: bus.subjects.decision(key, 'return', 'maria'), data: encode(body) })
    expect((await held).artifacts).toHaveLength(1)
    await untilTaken('bob')
    expect(heard.told).toEqual([])
  })

  it('comes again where the listener throws, and to another process where the one that had it died', async () => {
    const before = await durable(all, 'carol')
    const passes = [before.agent.passOver(asks()), before.agent.passOver(asks())]
    for (const pass of passes) await pass.stored
    for (const { id } of passes) await until(() => gates.get(id), { what: 'it runs', ...wait })
    await before.die()
    for (const { id } of passes) await release(id)
    for (const { id } of passes) await untilSend(all, id, 'delivered')
    const thrown: string[] = []
    const doomed = await durable(all, 'carol')
    let dies = false
    await doomed.agent.onDurableReturn(async ({ pass }) => {
      if (pass.id === passes[1]?.id) return new Promise<void>(() => undefined)
      thrown.push(pass.id)
      if (thrown.length === 1) throw new Error('not now')
      dies = true
    })
    await until(() => dies, { what: 'it is told again', ...wait })
    await untilSend(all, passes[0]?.id ?? '', 'acknowledged')
    await doomed.die()
    await using heir = await durable(all, 'carol')
    const heard = listener()
    await heir.agent.onDurableReturn(heard.hears)
    await until(() => heard.told.length > 0, { what: 'the other one is told to the next process', ...wait })
    expect([thrown, heard.ids()]).toEqual([[passes[0]?.id, passes[0]?.id], [passes[1]?.id]])
  })

  it('goes to one of several processes; with its consumer deleted by hand none is lost or told twice', async () => {
    const before = await durable(all, 'dora')
    const passes = Array.from({ length: 30 }, () => before.agent.passOver(asks()))
    for (const pass of passes) await pass.stored
    for (const { id } of passes) await until(() => gates.get(id), { what: 'it runs', ...wait })
    await before.die()
    for (const { id } of passes.slice(0, 20)) await release(id)
    for (const { id } of passes.slice(0, 20)) await untilSend(all, id, 'delivered')
    const replicas = await Promise.all([1, 2, 3].map(() => durable(all, 'dora')))
    const heard = listener()
    for (const { agent } of replicas) await agent.onDurableReturn(heard.hears)
    await until(() => heard.told.length >= 20, { what: 'the first are told', ...wait })
    await untilTaken('dora')
    await onServer((consumers) => consumers.delete('PASSOVER', 'returns_dora'))
    for (const { id } of passes.slice(20)) await release(id)
    await until(() => heard.told.length >= 30, { what: 'the others are told', ...wait })
    await untilTaken('dora')
    expect(heard.ids()).toEqual(passes.map(({ id }) => id).sort())
    for (const replica of replicas) await replica[Symbol.asyncDispose]()
    expect((await shownPass(all, passes[29]?.id ?? ''))?.status).toBe('processed')
  })

  it('waits no longer once a person says so: the server keeps no place for it, and makes it anew when asked', async () => {
    const { world } = all
    const place = async () => (await world.bus.listReturnConsumers()).includes('erin')
    const waits = { subagent: false, durable_returns: { from: 1 } }
    await world.agentRecord('erin', waits)
    await until(place, { what: 'returns wait for erin', ...wait })
    await world.agentRecord('erin', { subagent: false })
    await until(async () => !(await place()), { what: 'they do not any more', ...wait })
    // Rounds of all agents' consumers pass meanwhile.
    await staysTrue(async () => !(await place()), { what: 'nobody makes it again', for_ms: 1_200 })
    await world.agentRecord('erin', waits)
    await until(place, { what: 'they wait again', ...wait })
  })
})

describe('returns that count for nothing', () => {
  const JUNK = 2_400
  it('by the thousands do not delay an honest one, are not told, and do not stay with the consumer', async () => {
    const { bus } = all.world
    const before = await durable(all, 'frank')
    const honest = before.agent.passOver(asks())
    const theirs = before.agent.passOver({ ...asks(), subagent: 'mallory' })
    for (const pass of [honest, theirs]) await pass.stored
    for (const { id } of [honest, theirs]) await until(() => gates.get(id), { what: 'it runs', ...wait })
    await before.die()
    const junk = async (id: string, guard?: number) => {
      const key = { originator: 'frank', subagent: 'mallory', id }
      const outcome = await bus.publish({
        subject: bus.subjects.return(key, 'mallory'),
        headers: { [HEADER.attempt]: '1', [HEADER.status]: 'completed' },
        data: encode({ v: 1 }),
        ...(guard !== undefined && { guard: { subject: bus.subjects.journal(key), sequence: guard } }),
      })
      if (outcome.kind !== 'stored') throw new Error(`not stored: ${outcome.kind}`)
      return outcome.sequence
    }
    // Half of them of passes that nobody asked for, and half of a journal of their own, guarded like those of a worker.
    await Promise.all(Array.from({ length: JUNK / 2 }, () => junk(randomUUID())))
    await Promise.all(
      Array.from({ length: JUNK / 24 }, async () => {
        const id = randomUUID()
        for (let n = 0, last = 0; n < 12; n++) last = await junk(id, last)
      }),
    )
    for (const { id } of [honest, theirs]) await release(id)
    for (const { id } of [honest, theirs]) await untilSend(all, id, 'delivered')
    // Again for a pass that has ended: exact gets now find these and not the one that counts.
    for (let n = 0; n < 20; n++) await junk(theirs.id)
    await using back = await durable(all, 'frank')
    const heard = listener()
    const since = performance.now()
    await back.agent.onDurableReturn(heard.hears)
    await until(() => heard.ids().includes(honest.id), { what: 'the honest one is told', deadline_ms: 120_000 })
    console.log(`a return behind ${JUNK} that count for nothing was told after ${Math.round(performance.now() - since)} ms`)
    await untilTaken('frank')
    console.log(`all of them were taken after ${Math.round(performance.now() - since)} ms`)
    expect(heard.told.map(({ pass, output }) => [pass.id, output?.output]).sort()).toEqual(
      [honest, theirs].map(({ id }) => [id, `for ${id}`]).sort(),
    )
  }, 180_000)
})

/** Everything that returned to it so far was looked at, and is done with. */
async function untilTaken(name: string): Promise<void> {
  await until(
    async () => {
      const info = await onServer((consumers) => consumers.info('PASSOVER', `returns_${name}`))
      return info.num_pending + info.num_ack_pending === 0
    },
    { what: 'its returns are taken', deadline_ms: 60_000, every_ms: 100 },
  )
}
