import { randomUUID } from 'node:crypto'
import { listAnswer } from '@passover/schemas'
import type { Handler } from '@passover/sdk'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { AgentWorld } from '../../support/dispatcher/agents.js'
import { CLOCK_MS } from '../../support/dispatcher/dispatcher.js'
import { durable, listener, shownPass, untilSend } from '../../support/fixtures/delivery.js'
import { staysTrue, until } from '../../support/processes/until.js'

/** A return that its originator, who asked for delivery, did not acknowledge in time: E022 is recorded, and it is still to be had. */
let all: AgentWorld
let runs = 0
const DEADLINE_MS = 4_000
let opened = Promise.resolve()
const work: Handler = async ({ objective }) => {
  runs += 1
  await opened
  return objective === 'grave' ? { artifacts: [{ type: 'finding', severity: 'error', category: 'c', message: 'm' }] } : `run ${runs}`
}
beforeAll(async () => {
  const document = { defaults: { return_deadline_ms: DEADLINE_MS } }
  all = await AgentWorld.start({ dispatchers: [{ policy: { version: 1, document } }] })
  const worker = await all.agent('worker')
  await worker.onPass(work)
})
afterAll(() => all?.[Symbol.asyncDispose]())

const asks = (objective = 'o', more: object = {}) => ({ subagent: 'worker', reason: 'x', work_context: { objective }, ...more })

/** Passes that return after the process that asked for them died. */
async function left(name: string, objectives: string[], ids: (string | undefined)[] = []): Promise<string[]> {
  const process = await durable(all, name)
  let open: () => void = () => undefined
  opened = new Promise((resolve) => {
    open = resolve
  })
  const passes = objectives.map((objective, n) => process.agent.passOver(asks(objective, ids[n] ? { id: ids[n] } : {})))
  await Promise.all(passes.map(({ stored }) => stored))
  await process.die()
  open()
  return passes.map(({ id }) => id)
}

describe('a return that is not acknowledged by its deadline', () => {
  it('is recorded as E022 once, by list, show and record, and can still be asked for and told', async () => {
    await all.audit()
    const id = randomUUID()
    const [one = '', two = ''] = await left('alice', ['o', 'o'], [id])
    await Promise.all([one, two].map((late) => untilSend(all, late, 'undelivered')))
    const shown = await shownPass(all, one)
    expect(shown).toMatchObject({ status: 'returned', row: { code: 'E022', output_status: 'completed' } })
    expect(shown?.history?.filter(({ kind }) => kind === 'undelivered')).toMatchObject([{ by: 'passover' }])
    const late = Number(shown?.record?.undelivered_at) - Number(shown?.row.ended_at)
    expect(late).toBeGreaterThanOrEqual(DEADLINE_MS - CLOCK_MS)
    const listed = listAnswer.parse(await all.world.bus.ask({ op: 'list', originator: 'alice' }))
    expect(listed.ok && listed.passes.map((row) => [row.id, row.status, row.code, row.send]).sort()).toEqual(
      [one, two].map((late) => [late, 'returned', 'E022', 'undelivered']).sort(),
    )
    const ran = runs
    await using back = await durable(all, 'alice')
    expect((await back.agent.passOver(asks('o', { id }))).status).toBe('completed')
    const heard = listener()
    await back.agent.onDurableReturn(heard.hears)
    await until(() => heard.told.length > 0, { what: 'the other one is told', deadline_ms: 40_000 })
    await Promise.all([one, two].map((had) => untilSend(all, had, 'acknowledged')))
    expect([heard.ids(), runs]).toEqual([[two], ran])
    expect(await shownPass(all, one)).toMatchObject({
      status: 'processed',
      row: { send: 'acknowledged' },
      record: { undelivered_at: expect.any(Number) },
    })
    expect((await shownPass(all, one))?.row.code).toBeUndefined()
  })

  it('but not of an agent that does not ask, nor what nobody waits for, was acknowledged, or awaits release', async () => {
    const plain = await all.agent('plain')
    const unasked = plain.passOver(asks())
    await unasked.stored
    await all.die(plain)
    const bob = await durable(all, 'bob')
    const had = bob.agent.passOver(asks())
    const nobodys = bob.agent.passOver(asks('o', { return_required: false }))
    const held = bob.agent.passOver(asks('grave'))
    await Promise.all([had, nobodys.stored, held.stored])
    await untilSend(all, had.id, 'acknowledged')
    await bob.die()
    const passes = [unasked, had, nobodys, held].map(({ id }) => id)
    await until(async () => (await shownPass(all, held.id))?.status === 'awaiting_release', {
      what: 'it awaits release',
      deadline_ms: 30_000,
    })
    const [last = ''] = await left('bob', ['o'])
    await untilSend(all, last, 'undelivered')
    const codes = async () => Promise.all(passes.map(async (id) => (await shownPass(all, id))?.row.undelivered_at))
    await staysTrue(async () => (await codes()).every((at) => at === undefined), { what: 'none of them is late', for_ms: 1_000 })
  })

  it('also when nobody watched: an audit that starts after the deadline finds it', async () => {
    for (const audit of all.audits) await audit.drain()
    const [late = ''] = await left('carol', ['o'])
    const { step } = await all.world.end({ originator: 'carol', subagent: 'worker', id: late }, 30_000)
    await until(() => all.world.bus.now() > step.time + DEADLINE_MS, { what: 'its deadline is past' })
    await all.audit()
    await untilSend(all, late, 'undelivered')
  })
})
