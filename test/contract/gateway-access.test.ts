import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openApiDocument, SCOPES, TokenFile } from '@passover/gateway'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { GatewayWorld } from '../support/fixtures/gateway.js'
import { until } from '../support/processes/until.js'

interface Operation {
  operationId: string
  'x-passover-scope'?: string
  'x-passover-access'?: 'own' | 'people'
}

const document = openApiDocument() as { paths: Record<string, Record<string, Operation>> }
const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({ path, method: method.toUpperCase(), operation, name: operation.operationId })),
)

/** Words that only the passes of alice contain. */
const SECRET = 'SECRET-OF-ALICE'
const BODIES: Record<string, object> = {
  createPass: { subagent: 'audit', reason: 'r', work_context: { objective: 'o' } },
  cancelPass: {},
  approvePass: {},
  denyPass: {},
  putPolicy: {},
  requeueDeadLetter: {},
  dropDeadLetter: {},
}
/** Agents that take no part in alice's passes: one that is registered, and a name that no registry has. */
const STRANGERS = ['agent~bob', 'agent~ghost']

/**
 * Every operation of the document with a token of each kind, on a server that enforces nothing by itself. A new operation is tested here
 * without a change, because its kind of access is part of the document.
 */
describe('access by token', () => {
  let world: GatewayWorld
  const passes = { done: '', held: '', letter: '' }

  beforeAll(async () => {
    world = await GatewayWorld.start({ rate_burst: 100_000, rate_per_second: 100_000, heartbeat_ms: 100 })
    const { world: made } = world.agents
    await made.agent('alice', { originates: 'always' })
    await made.agent('bob', { originates: 'always' })
    await made.agent('audit')
    await (await world.agents.agent('audit')).onPass(() => ({ output: SECRET, summary: SECRET }))
    const body = { subagent: 'audit', reason: SECRET, work_context: { objective: SECRET } }
    const ask = (more: object) =>
      world.ask<{ id: string }>('agent~alice', '/passes', { body: { ...body, ...more }, headers: { prefer: 'wait=30' } })
    passes.done = (await ask({})).body.id
    const held = await world.ask<{ id: string }>('agent~alice', '/passes', { body: { ...body, override: { hold_before_dispatch: true } } })
    passes.held = held.body.id
    const bad = await made.send(new TextEncoder().encode(SECRET))
    await made.end(bad)
    passes.letter = bad.id
    await until(async () => ((await text('ann', '/inbox')).includes(passes.held) ? true : undefined), { what: 'the pass is held' })
    await until(async () => ((await text('ann', '/dlq')).includes(passes.letter) ? true : undefined), { what: 'the dead letter is listed' })
    await until(async () => ((await text('ann', '/audit')).includes(passes.done) ? true : undefined), { what: 'the pass is recorded' })
  })
  afterAll(() => world?.[Symbol.asyncDispose]())

  async function text(token: string, path: string): Promise<string> {
    return JSON.stringify((await world.ask(token, path)).body)
  }

  function target({ path, name }: (typeof operations)[number]): string {
    if (path.includes('/dlq/')) return path.replace('{id}', passes.letter)
    return path.replace('{id}', name === 'showPlan' || name === 'showPass' ? passes.done : passes.held)
  }

  async function ask(of: (typeof operations)[number], token: string, gateway = world.gateway) {
    const body = BODIES[of.name]
    const headers = new Headers({ authorization: `Bearer ${token}` })
    if (body) headers.set('content-type', 'application/json')
    if (of.name === 'putPolicy') headers.set('if-match', '"0"')
    const init = { method: of.method, headers, ...(body ? { body: JSON.stringify(body) } : {}) }
    const query = of.name === 'explainPolicy' ? '?from=alice&to=audit' : of.name === 'followEvents' ? '?after=0' : ''
    const response = await gateway.app.request(`http://localhost${target(of)}${query}`, init)
    expect(response.headers.get('x-content-type-options'), of.name).toBe('nosniff')
    return { status: response.status, text: await read(response) }
  }

  /** A feed is read until it has caught up with the stream. */
  async function read(response: Response): Promise<string> {
    if (!response.headers.get('content-type')?.startsWith('text/event-stream')) return response.text()
    const { last } = await world.agents.world.bus.bounds()
    let found = ''
    for await (const chunk of response.body ?? []) {
      found += new TextDecoder().decode(chunk)
      const positions = [...found.matchAll(/event: position\nid: (\d+)/g)].map(([, id]) => Number(id))
      if (positions.some((id) => id >= last)) break
    }
    return found
  }

  const guarded = operations.filter(({ operation }) => operation['x-passover-scope'] !== undefined)

  it('is stated by every operation that needs a token', () => {
    for (const { name, operation } of guarded) expect(['own', 'people'], name).toContain(operation['x-passover-access'])
    expect(operations.filter((one) => !guarded.includes(one)).map(({ name }) => name)).toEqual(['livez', 'readyz', 'openapi'])
  })

  it('ends with the token, of every operation', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'passover-access-'))
    let now = 1
    const tokens = new TokenFile(join(folder, 'tokens.json'), () => now)
    const { token } = await tokens.add({ name: 'ann', kind: 'person', scopes: SCOPES, expires_at: 10 })
    const gateway = await world.another({}, tokens)
    const list = operations.find(({ name }) => name === 'listPasses')!
    expect((await ask(list, token, gateway)).status).toBe(200)
    now = 10
    for (const of of guarded) expect((await ask(of, token, gateway)).status, of.name).toBe(401)
    rmSync(folder, { recursive: true })
  })

  it.each(guarded)('$name: an agent that takes no part in a pass neither sees nor changes it', async (of) => {
    for (const token of STRANGERS) {
      const { status, text } = await ask(of, token)
      const told = `${token} ${of.name} ${status} ${text}`
      expect(text, told).not.toContain(SECRET)
      for (const id of [passes.done, passes.held, passes.letter]) {
        // An answer may repeat the id that was asked for, and nothing more.
        if (!target(of).includes(id)) expect(text, told).not.toContain(id)
      }
      if (of.operation['x-passover-access'] === 'people') expect(status, told).toBe(403)
      else if (of.path.includes('{id}')) expect(status, told).toBe(404)
      else if (of.name !== 'createPass') expect(status, told).toBe(200)
    }
  })

  it.each(guarded.filter(({ operation }) => operation['x-passover-access'] === 'people'))(
    '$name: an agent is refused its own pass, too',
    async (of) => {
      expect((await ask(of, 'agent~alice')).status).toBe(403)
    },
  )

  it.each(guarded.filter(({ operation, method }) => operation['x-passover-access'] === 'own' && method === 'GET'))(
    '$name: the originator and a person see the pass',
    async (of) => {
      for (const token of ['agent~alice', 'ann']) {
        const { status, text } = await ask(of, token)
        // A pass without changes has an empty plan.
        expect(status, `${token} ${of.name} ${text}`).toBe(200)
        const shown = [passes.done, passes.held, passes.letter, SECRET].some((one) => text.includes(one))
        expect(shown, `${token} ${of.name} ${text}`).toBe(true)
      }
    },
  )

  it('lets the subagent see a pass and not cancel it, and the originator cancel it', async () => {
    const cancel = operations.find(({ name }) => name === 'cancelPass')!
    expect((await world.ask('agent~audit', `/passes/${passes.done}`)).status).toBe(200)
    expect(await ask(cancel, 'agent~audit')).toMatchObject({ status: 403 })
    expect((await world.ask('ann', `/passes/${passes.held}`)).body).toMatchObject({ status: 'held' })
    await until(async () => ((await ask(cancel, 'agent~alice')).status === 200 ? true : undefined), { what: 'alice cancels her pass' })
  })
})
