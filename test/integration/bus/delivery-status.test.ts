import { storedRecord } from '@passover/audit'
import { encode } from '@passover/bus'
import { listAnswer, type PassRow, passAnswer } from '@passover/schemas'
import type { Agent } from '@passover/sdk'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { AgentWorld } from '../../support/dispatcher/agents.js'
import { until } from '../../support/processes/until.js'

/** How far a pass is for who sent it: stored, dispatched, delivered, acknowledged. */
let all: AgentWorld
let alice: Agent
beforeAll(async () => {
  // What stays open for long is written once more, and on a busy machine any pass may.
  all = await AgentWorld.start({ audit: { open_ms: 600_000, request_ms: 600_000 } })
  alice = await all.agent('alice')
})
afterAll(() => all?.[Symbol.asyncDispose]())

const ask = (to: string, more: object = {}) => alice.passOver({ subagent: to, reason: 'x', work_context: { objective: 'o' }, ...more })

async function shown(id: string) {
  const answer = passAnswer.parse(await all.world.bus.ask({ op: 'pass', id, history: true }, { timeout_ms: 30_000 }))
  return answer.ok ? answer.passes[0] : undefined
}

const sendOf = async (id: string) => (await shown(id))?.row.send

async function listed(filter: object): Promise<PassRow[]> {
  const answer = listAnswer.parse(await all.world.bus.ask({ op: 'list', ...filter }, { timeout_ms: 30_000 }))
  return answer.ok ? answer.passes : []
}

describe('send status', () => {
  it('is told by show, list, record and handle, step by step', async () => {
    const slow = await all.agent('slow')
    const until_done: { done?: () => void } = {}
    await using _worker = await slow.onPass(() => new Promise<string>((resolve) => (until_done.done = () => resolve('done'))))
    const held = ask('slow', { override: { hold_before_dispatch: true } })
    await held.stored
    await until(async () => (await sendOf(held.id)) === 'stored', { what: 'held: stored', deadline_ms: 30_000 })
    const pass = ask('slow', { timeout_ms: 120_000 })
    await until(async () => (await sendOf(pass.id)) === 'dispatched', { what: 'dispatched', deadline_ms: 30_000 })
    await until(() => until_done.done, { what: 'the handler runs', deadline_ms: 30_000 })
    until_done.done?.()
    await pass
    await until(async () => (await sendOf(pass.id)) === 'acknowledged', { what: 'acknowledged', deadline_ms: 30_000 })
    const found = await shown(pass.id)
    expect(found).toMatchObject({ status: 'processed', row: { status: 'processed', send: 'acknowledged' } })
    const said = found?.history?.at(-1)
    expect(said).toMatchObject({ kind: 'acknowledged', by: 'alice' })
    expect(found?.record).toMatchObject({ status: 'processed', acknowledged_at: said?.time })
    expect(await pass.status()).toBe('processed')
    expect((await listed({ status: 'processed', subagent: 'slow' })).map(({ id }) => id)).toEqual([pass.id])
    expect(await listed({ status: 'returned', subagent: 'slow' })).toEqual([])
    await held.cancel()
  })

  it('what nobody waits for is delivered, and not acknowledged; nor does another speak for its originator', async () => {
    const echo = await all.agent('echo')
    await using _worker = await echo.onPass(() => 'done')
    const pass = ask('echo', { return_required: false })
    await pass.stored
    const row = await until(async () => (await listed({ status: 'returned', subagent: 'echo' }))[0], {
      what: 'it returned',
      deadline_ms: 30_000,
    })
    expect(row).toMatchObject({ id: pass.id, send: 'delivered' })
    const { bus } = all.world
    await bus.publish({ subject: bus.subjects.acknowledged('mallory'), data: encode({ v: 1, returns: [row.return_sequence] }) })
    await all.audits[0]?.settled()
    expect(await sendOf(pass.id)).toBe('delivered')
    await bus.publish({ subject: bus.subjects.acknowledged('alice'), data: encode({ v: 1, returns: [row.return_sequence] }) })
    await all.audits[0]?.settled()
    expect(await sendOf(pass.id)).toBe('acknowledged')
  })

  it('of 900 passes: one record each, few acknowledgments, few entries; the index lost is made anew with the same bytes', async () => {
    const many = await all.agent('many')
    await using _worker = await many.onPass(() => 'done', { concurrency: 64 })
    await all.audits[0]?.settled()
    const { bus } = all.world
    const before = { last: (await bus.bounds()).last, writes: all.audits[0]?.stats().kv_writes ?? 0 }
    const begun = performance.now()
    for (let n = 0; n < 900; n += 100) await Promise.all(Array.from({ length: 100 }, () => ask('many')))
    await alice[Symbol.asyncDispose]()
    const seconds = (performance.now() - begun) / 1_000
    await all.audits[0]?.settled()
    expect((all.audits[0]?.stats().kv_writes ?? 0) - before.writes).toBeLessThanOrEqual(900 + 20)
    expect((await bus.bounds()).last - before.last).toBeLessThanOrEqual(2_700 + Math.ceil(seconds) + 1)
    const rows = await listed({ subagent: 'many', limit: 1_000 })
    expect([rows.length, rows.every(({ send }) => send === 'acknowledged')]).toEqual([900, true])
    const entries = await entriesOf()
    expect(entries.length).toBeLessThanOrEqual(4)
    const table = await bus.table('acknowledged', z.any())
    for (const { key } of entries) await table.delete(key)
    const again = await all.audit({ answers: false })
    await again.settled()
    expect(await entriesOf()).toEqual(entries)
    const passes = await bus.table('passes', storedRecord)
    let records = 0
    for await (const { value } of passes.entries()) records += value.key.subagent === 'many' ? 1 : 0
    expect(records).toBe(900)
  })
})

async function entriesOf(): Promise<{ key: string; value: unknown }[]> {
  const table = await all.world.bus.table('acknowledged', z.any())
  const found: { key: string; value: unknown }[] = []
  for await (const { key, value } of table.entries()) found.push({ key, value })
  return found.sort((a, b) => (a.key < b.key ? -1 : 1))
}
