import type { AuditPage, CreatedPass, PassesPage, ReturnsPage, ShownPass } from '@passover/schemas/http'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { storedForPasses } from '../../support/assertions/stream.js'
import { GatewayWorld } from '../../support/fixtures/gateway.js'
import { until } from '../../support/processes/until.js'

describe('the HTTP API', () => {
  let world: GatewayWorld
  beforeAll(async () => {
    world = await GatewayWorld.start()
    const { world: made } = world.agents
    await made.agent('alice', { originates: 'always' })
    await made.agent('audit')
    await made.agent('other')
    const audit = await world.agents.agent('audit')
    await audit.onPass(async (pass) => ({ output: `done: ${pass.context.objective}`, summary: 'all is well' }))
  })
  afterAll(() => world?.[Symbol.asyncDispose]())

  const request = { subagent: 'audit', reason: 'review', work_context: { objective: 'look' } }

  it('passes work over as the agent of the token, waits, and tells of it', async () => {
    const made = await world.ask<CreatedPass>('agent~alice', '/passes', { body: request, headers: { prefer: 'wait=30' } })
    expect(made).toMatchObject({
      status: 200,
      body: { originator: 'alice', subagent: 'audit', output: { status: 'completed', output: 'done: look' } },
    })
    const { id } = made.body
    expect(made.headers.get('location')).toBe(`/api/pass-over/passes/${id}`)
    const shown = await world.ask<ShownPass>('ann', `/passes/${id}?history=true`)
    expect(shown.body).toMatchObject({
      status: expect.stringMatching(/returned|processed/),
      pass: { id },
      output: { output: 'done: look' },
    })
    expect(shown.body.history?.map(({ kind }) => kind)).toContain('return')
  })

  it('continues the trace of who asks, and ignores what is none', async () => {
    const trace = '4bf92f3577b34da6a3ce929d0e0e4736'
    const traced = async (traceparent: string) => {
      const { id } = (
        await world.ask<CreatedPass>('agent~alice', '/passes', { body: request, headers: { prefer: 'wait=30', traceparent } })
      ).body
      return (await world.ask<ShownPass>('ann', `/passes/${id}`)).body.record?.metadata
    }
    expect(await traced(`00-${trace}-00f067aa0ba902b7-01`)).toMatchObject({ trace_id: trace })
    expect(await traced('00-zz')).not.toHaveProperty('trace_id')
  })

  it('lists it, its audit entry and its return context by the parameters of the HTTP API', async () => {
    const body = { ...request, work_context: { objective: 'look', session_id: 'abc123' } }
    const { id } = (await world.ask<CreatedPass>('agent~alice', '/passes', { body, headers: { prefer: 'wait=30' } })).body
    const seconds = Math.floor(Date.now() / 1000) - 3_600
    const query = `session_id=abc123&start_time=${seconds}&originating_agent=alice&subagent=audit`
    const entries = await until(
      async () => {
        const { body: page } = await world.ask<AuditPage>('ann', `/audit?${query}`)
        return page.entries.length > 0 ? page.entries : undefined
      },
      { what: 'the entry is recorded' },
    )
    expect(entries).toMatchObject([
      { pass_over_id: id, session_id: 'abc123', originating_agent: 'alice', status: 'completed', returned: true },
    ])
    expect((await world.ask<PassesPage>('ann', `/passes?${query}`)).body.passes).toMatchObject([{ id }])
    expect((await world.ask<ReturnsPage>('ann', `/returns?${query}`)).body.returns).toMatchObject([
      { pass_over_id: id, chain_depth: 1, ancestors: ['alice'], pending_work_output: { work_id: id }, return_deadline: expect.any(Number) },
    ])
    expect((await world.ask<AuditPage>('ann', `/audit?${query}&end_time=${seconds + 1}`)).body.entries).toEqual([])
    expect((await world.ask<AuditPage>('agent~audit', '/audit?session_id=abc123')).body.entries).toHaveLength(1)
    expect((await world.ask<AuditPage>('agent~other', '/audit?session_id=abc123')).body.entries).toEqual([])
  })

  it('shows an originator nothing of an output that nobody released yet, and a person all of it', async () => {
    const { world: made } = world.agents
    await made.agent('critic')
    const finding = { type: 'finding' as const, severity: 'error' as const, category: 'c', message: 'SECRET finding' }
    const critic = await world.agents.agent('critic')
    await critic.onPass(() => ({ output: 'SECRET output', summary: 'SECRET summary', artifacts: [finding] }))
    const body = { ...request, subagent: 'critic', work_context: { objective: 'look for OBJECTIVE', session_id: 'unreleased' } }
    const { id } = (await world.ask<CreatedPass>('agent~alice', '/passes', { body })).body
    const all = async (token: string) => {
      const paths = ['/audit?session_id=unreleased', `/passes/${id}?history=true`, `/passes/${id}/plan`, '/inbox', '/returns', '/passes']
      return Promise.all(paths.map(async (path) => JSON.stringify((await world.ask(token, path)).body)))
    }
    await until(
      async () => {
        const { body: page } = await world.ask<AuditPage>('ann', '/audit?session_id=unreleased')
        return page.entries.length > 0 ? true : undefined
      },
      { what: 'the entry is recorded' },
    )
    const shows = (texts: string[]) => texts.map((text) => text.includes('SECRET'))
    expect(shows(await all('ann'))).toEqual([true, true, false, true, true, false])
    expect(shows(await all('agent~alice'))).toEqual([false, false, false, false, false, false])
    expect((await world.ask<AuditPage>('agent~alice', '/audit?session_id=unreleased')).body.entries).toMatchObject([
      { summary: 'the output is not released: its status is awaiting_release', issues_found_count: 1 },
    ])
    const finds = async (token: string, text: string) =>
      (await world.ask<PassesPage>(token, `/passes?text=${text}`)).body.passes.map((one) => one.id)
    expect([await finds('ann', 'secret'), await finds('agent~alice', 'secret')]).toEqual([[id], []])
    expect(await finds('agent~alice', 'objective')).toEqual([id])
    // A page that says there is more, or where to go on, would tell that the words were met.
    const told = async (text: string) => (await world.ask(`agent~alice`, `/audit?limit=1&text=${text}`)).body
    expect(await told('secret')).toEqual(await told('no-such-words'))
    expect(await finds('agent~alice', 'REVIEW')).toContain(id)
    await world.ask('ann', `/passes/${id}/deny`, { body: { item: 'return' } })
    expect(shows(await all('agent~alice'))).toEqual([false, false, false, false, false, false])
    expect(shows(await all('ann'))[1]).toBe(true)
  })

  it('says what is wrong as a problem with a code, and stores nothing', async () => {
    const before = await storedForPasses(world.agents.world.bus)
    const wrong: [number, string, Promise<{ status: number; body: unknown; headers: Headers }>][] = [
      [401, 'E013', world.ask('nobody', '/audit')],
      [403, 'E013', world.ask('ann~read', '/passes', { body: request })],
      [400, 'E005', world.ask('ann', '/audit?colour=red')],
      [400, 'E005', world.ask('ann', '/audit?limit=1e3')],
      [400, 'E005', world.ask('ann', '/audit?limit=1&limit=2')],
      [400, 'E005', world.ask('agent~alice', '/passes', { body: { ...request, colour: 'red' } })],
      [400, 'E005', world.ask('agent~alice', '/passes', { body: '{"subagent":', headers: {} })],
      [415, 'E005', world.ask('agent~alice', '/passes', { body: 'subagent=audit', headers: { 'content-type': 'text/plain' } })],
      [404, 'E041', world.ask('ann', '/passes/no-such-pass')],
      [404, 'E041', world.ask('ann', '/passes/..%2f..%2fetc%2fpasswd')],
      [404, 'E042', world.ask('ann', '/nothing')],
      [405, 'E042', world.ask('ann', '/audit', { method: 'DELETE' })],
    ]
    for (const [status, code, asked] of wrong) {
      const { body, headers, status: got } = await asked
      expect({ got, body }).toMatchObject({
        got: status,
        body: { status, code, type: `urn:passover:error:${code}`, detail: expect.any(String) },
      })
      expect(headers.get('content-type')).toBe('application/problem+json; charset=utf-8')
    }
    expect(await storedForPasses(world.agents.world.bus)).toEqual(before)
  })
})
