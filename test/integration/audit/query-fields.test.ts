import { decisionFilter, type PassQuery, passQuery, type QueriedPass, queryAnswer, returnToContext } from '@passover/schemas'
import {
  type AuditPage,
  type AuditParameters,
  auditParameters,
  type CreatedPass,
  type PassesPage,
  type ReturnsPage,
  returnsParameters,
} from '@passover/schemas/http'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { GatewayWorld } from '../../support/fixtures/gateway.js'
import { until } from '../../support/processes/until.js'

/**
 * A row a field of what is asked about recorded passes: with one value it finds the pass, with another one it does not.
 * And one of ReturnToContext, as `/api/pass-over/returns` gives it.
 */

interface Asked {
  /** What finds the pass, and what does not. */
  finds: PassQuery
  misses: PassQuery
  /** The same over HTTP, by the names of its parameters. */
  http: Partial<Record<keyof AuditParameters, [string | number, string | number]>>
}

let world: GatewayWorld
/** Held, approved by ann, completed; and one whose handler threw. */
let held: QueriedPass
let failed: QueriedPass

async function query(asked: PassQuery): Promise<{ entries: QueriedPass[]; cursor?: string | undefined }> {
  const answer = queryAnswer.parse(await world.agents.world.bus.ask({ op: 'query', ...asked }, { timeout_ms: 30_000 }))
  if (!answer.ok) throw new Error(answer.error.message)
  return answer
}

async function ended(session_id: string): Promise<QueriedPass> {
  return await until(async () => (await query({ session_id })).entries.find(({ entry }) => entry !== undefined), {
    what: `${session_id} ended`,
  })
}

beforeAll(async () => {
  world = await GatewayWorld.start()
  const { world: made } = world.agents
  await made.agent('alice', { originates: 'always' })
  await made.agent('audit')
  await made.agent('scout')
  await (await world.agents.agent('audit')).onPass(() => ({ output: 'done', summary: 'all is well' }))
  await (await world.agents.agent('scout')).onPass(
    () => {
      throw new Error('a bug')
    },
    { log: () => undefined },
  )
  const ask = (session_id: string, more: object) =>
    world.ask<CreatedPass>('agent~alice', '/passes', {
      body: { reason: 'the needle', work_context: { objective: 'o', session_id }, ...more },
    })
  const { id } = (await ask('sess-held', { subagent: 'audit', override: { hold_before_dispatch: true } })).body
  const due = async () => ((await world.ask('ann', `/passes/${id}`)).body.due === undefined ? undefined : true)
  await until(due, { what: 'it waits for ann' })
  await world.ask('ann', `/passes/${id}/approve`, { body: { item: 'dispatch' } })
  await ask('sess-failed', { subagent: 'scout' })
  held = await ended('sess-held')
  failed = await ended('sess-failed')
})
afterAll(() => world?.[Symbol.asyncDispose]())

const created = () => held.row.created_at
const ROWS: Record<Exclude<keyof PassQuery, 'limit' | 'cursor'>, () => Asked> = {
  session_id: () => ({
    finds: { session_id: 'sess-held' },
    misses: { session_id: 'sess-failed' },
    http: { session_id: ['sess-held', 'sess-failed'] },
  }),
  originator: () => ({ finds: { originator: 'alice' }, misses: { originator: 'bob' }, http: { originating_agent: ['alice', 'bob'] } }),
  subagent: () => ({ finds: { subagent: 'audit' }, misses: { subagent: 'scout' }, http: { subagent: ['audit', 'scout'] } }),
  status: () => ({ finds: { status: 'completed' }, misses: { status: 'failed' }, http: { status: ['completed', 'failed'] } }),
  from: () => ({ finds: { from: created() }, misses: { from: created() + 1 }, http: { start_time: [created(), created() + 1] } }),
  to: () => ({ finds: { to: created() + 1 }, misses: { to: created() }, http: { end_time: [created() + 1, created()] } }),
  decision: () => ({
    finds: { decision: { verdict: 'approve', item: 'dispatch', person: 'ann' } },
    misses: { decision: { verdict: 'approve', item: 'dispatch', person: 'bob' } },
    http: { decision: ['approve', 'deny'], decided_by: ['ann', 'bob'], item: ['dispatch', 'return'] },
  }),
  code: () => ({ finds: {}, misses: { code: 'E011' }, http: { code: ['E011', 'E010'] } }),
  text: () => ({ finds: { text: 'ALL IS well' }, misses: { text: 'haystack' }, http: { text: ['needle', 'haystack'] } }),
}

describe('PassQuery', () => {
  it('has a row a field', () => {
    expect([...Object.keys(ROWS), 'limit', 'cursor'].sort()).toEqual(Object.keys(passQuery.shape).sort())
    const http = Object.values(ROWS).flatMap((row) => Object.keys(row().http))
    expect([...http, 'limit', 'cursor'].sort()).toEqual(Object.keys(auditParameters.shape).sort())
  })

  for (const [field, row] of Object.entries(ROWS)) {
    it(`${field}, asked of the audit and over HTTP`, async () => {
      const { finds, misses, http } = row()
      const found = async (asked: PassQuery) => (await query(asked)).entries.map(({ row: { id } }) => id)
      expect(await found(finds)).toContain(held.row.id)
      expect(await found(misses)).not.toContain(held.row.id)
      const wanted = field === 'code' ? failed.row.id : held.row.id
      for (const [name, [right, wrong]] of Object.entries(http)) {
        const pages = async (value: string | number) => {
          const asked = `${name}=${encodeURIComponent(value)}`
          const { entries } = (await world.ask<AuditPage>('ann', `/audit?${asked}`)).body
          const { passes } = (await world.ask<PassesPage>('ann', `/passes?${asked}`)).body
          const returns =
            name in returnsParameters.shape ? (await world.ask<ReturnsPage>('ann', `/returns?${asked}`)).body.returns : undefined
          return [entries.map((one) => one.pass_over_id), passes.map(({ id }) => id), returns?.map((one) => one.pass_over_id)]
        }
        for (const ids of await pages(right)) if (ids) expect([name, right, ids]).toEqual([name, right, expect.arrayContaining([wanted])])
        for (const ids of await pages(wrong)) if (ids) expect([name, wrong, ids.includes(wanted)]).toEqual([name, wrong, false])
      }
    })
  }

  it('decision: each of its fields narrows by itself', async () => {
    const other = { item: 'return', verdict: 'deny', person: 'bob' } as const
    expect(Object.keys(other).sort()).toEqual(Object.keys(decisionFilter.shape).sort())
    for (const [field, value] of Object.entries(other)) expect((await query({ decision: { [field]: value } })).entries).toEqual([])
    expect(held.decisions).toMatchObject([{ item: 'dispatch', verdict: 'approve', person: 'ann' }])
  })

  it('limit and cursor: page by page each once, of the audit, its entries, passes and returns', async () => {
    const first = await query({ limit: 1 })
    const rest = await query({ limit: 1, cursor: first.cursor ?? '' })
    expect([first, rest].map(({ entries }) => entries.map(({ row }) => row.id))).toEqual([[failed.row.id], [held.row.id]])
    for (const [path, of] of [
      ['audit', 'entries'],
      ['passes', 'passes'],
      ['returns', 'returns'],
    ] as const) {
      const one = (await world.ask('ann', `/${path}?limit=1`)).body
      const two = (await world.ask('ann', `/${path}?limit=1&cursor=${one.cursor}`)).body
      expect([one[of], two[of]]).toMatchObject([[{}], [{}]])
      expect(one[of]).not.toEqual(two[of])
      expect((await world.ask('ann', `/${path}?limit=100000`)).body).toMatchObject({
        code: 'E005',
        detail: expect.stringContaining('query.limit'),
      })
    }
  })
})

describe('ReturnToContext, as /api/pass-over/returns gives it', () => {
  it('has every field', async () => {
    const of = async (session: string) => (await world.ask<ReturnsPage>('ann', `/returns?session_id=${session}`)).body.returns[0]
    const [done, broken] = [await of('sess-held'), await of('sess-failed')]
    const wanted: Record<keyof typeof returnToContext.shape, unknown> = {
      session_id: 'sess-held',
      return_id: expect.any(String),
      originating_agent_id: 'alice',
      subagent_id: 'audit',
      pass_over_id: held.row.id,
      auto_return_enabled: false,
      auto_apply_enabled: false,
      return_deadline: held.row.deadline,
      chain_depth: 1,
      max_chain_depth: 3,
      ancestors: ['alice'],
      status: expect.stringMatching(/^(returned|processed)$/),
      created_at: created(),
      returned_at: held.row.ended_at,
      pending_work_output: expect.objectContaining({ work_id: held.row.id, output: 'done' }),
      processing_errors: undefined,
    }
    expect(Object.keys(wanted).sort()).toEqual(Object.keys(returnToContext.shape).sort())
    expect(done).toEqual(wanted)
    expect(broken?.processing_errors).toEqual([expect.stringMatching(/^E011 .*a bug/)])
    expect(broken?.pending_work_output).toBeUndefined()
  })
})
