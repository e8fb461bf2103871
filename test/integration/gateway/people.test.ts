import { mkdtemp, readFile, rm, stat } from 'node:fs/promises'
import { connect as connectSocket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ListenError, NeedsTokensError, PortTakenError, TokenFile } from '@passover/gateway'
import { connectHttp } from '@passover/sdk/http'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { GatewayWorld } from '../../support/fixtures/gateway.js'
import { until } from '../../support/processes/until.js'

const CHANGE = {
  type: 'file_modification' as const,
  path: 'a.ts',
  old_content: 'let a = 1',
  new_content: 'const a = 1',
  reason: 'never changed',
  confidence: 'high' as const,
}

describe('people at the HTTP API', () => {
  let world: GatewayWorld
  let url: string
  beforeAll(async () => {
    world = await GatewayWorld.start()
    const { world: made } = world.agents
    await made.agent('alice', { originates: 'always' })
    await made.agent('audit')
    await made.agent('rewriter')
    await (await world.agents.agent('audit')).onPass(async () => ({ summary: 'one change', artifacts: [CHANGE], output: 'done' }))
    url = (await (await world.another({ port: 0 })).listen()).url
  })
  afterAll(() => world?.[Symbol.asyncDispose]())

  const client = (token: string) => connectHttp({ url, token })
  const request = { subagent: 'audit', reason: 'review', work_context: { objective: 'look', directory: '/p' } }

  it('decide what was shown, once, and nothing else', async () => {
    const { id } = await client('agent~alice').passes.create({ ...request, override: { hold_before_dispatch: true } })
    const ann = client('ann')
    await until(async () => (await ann.passes.get(id)).due, { what: 'it waits for a person' })
    const shown = await ann.passes.get(id)
    expect(shown).toMatchObject({ status: 'held', due: { item: 'dispatch' } })
    expect((await ann.inbox()).items.map((item) => item.id)).toContain(id)
    await expect(ann.passes.approve(id, { digest: 'of something else' })).rejects.toMatchObject({ code: 'E031', context: { status: 412 } })
    await expect(client('agent~alice').passes.approve(id)).rejects.toMatchObject({ code: 'E013' })
    expect(await ann.passes.approve(id, { digest: shown.due?.digest ?? '', reason: 'seen' })).toMatchObject({
      decided: true,
      by: 'ann',
      unverified: true,
      item: 'dispatch',
    })
    expect(await ann.passes.get(id, { waitSeconds: 20 })).toMatchObject({ output: { status: 'completed' } })
    expect(await ann.passes.plan(id)).toMatchObject({
      may_apply: false,
      changes: [{ number: 1, verdict: 'undecided', modification: { path: 'a.ts' } }],
    })
    // What is approved is what the plan shows: its digest, and no other, approves the changes.
    const plan = await ann.passes.plan(id)
    expect(plan.files).toMatchObject([{ path: 'a.ts', numbers: [1], diff: expect.any(String), warnings: [] }])
    await expect(ann.passes.approve(id, { item: 'apply' })).rejects.toMatchObject({ code: 'E005', context: { status: 400 } })
    const { due } = await ann.passes.get(id)
    for (const digest of [due?.digest ?? '', 'of something else'])
      await expect(ann.passes.approve(id, { item: 'apply', digest })).rejects.toMatchObject({ code: 'E031', context: { status: 412 } })
    expect((await ann.passes.plan(id, { only: '1' })).digest).toBe(plan.digest)
    await expect(ann.passes.plan(id, { only: '2' })).rejects.toMatchObject({ code: 'E005' })
    expect(await ann.passes.approve(id, { item: 'apply', digest: plan.digest })).toMatchObject({ item: 'apply', decided: true })
    expect(await ann.passes.plan(id)).toMatchObject({ may_apply: true, changes: [{ verdict: 'taken' }] })
    await expect(client('bob').passes.deny(id, { item: 'apply' })).rejects.toMatchObject({ code: 'E031', context: { status: 409 } })
  })

  it('see the whole diff of changes for which an agent gets no search', async () => {
    const lines = Array.from({ length: 700 }, (_, n) => `line ${n}`)
    const old_content = `${lines.join('\n')}\n`
    const new_content = `${lines.map((line) => `${line} changed`).join('\n')}\n`
    const artifacts = [{ ...CHANGE, old_content, new_content }]
    await (await world.agents.agent('rewriter')).onPass(async () => ({ summary: 'all of it', artifacts, output: 'done' }))
    const { id } = await client('agent~alice').passes.create({ ...request, subagent: 'rewriter' }, { waitSeconds: 20 })
    const [people, agents] = await Promise.all([client('ann').passes.plan(id), client('agent~alice').passes.plan(id)])
    expect(people.files).toMatchObject([{ added: 700, removed: 700, diff: expect.any(String) }])
    expect(agents.files).toMatchObject([{ omitted: 'too_many_changes' }])
    expect((await client('agent~alice').passes.plan(id, { whole: 'true' })).files).toEqual(agents.files)
    // What an approval names does not depend on what a diff is searched for.
    expect(agents.digest).toBe(people.digest)
  })

  it('are asked twice for one pass by its id or key, and cancel', async () => {
    const alice = client('agent~alice')
    const first = await alice.passes.create(request, { key: 'build 7', waitSeconds: 20 })
    const again = await alice.passes.create(request, { key: 'build 7', waitSeconds: 20 })
    expect(again.id).toBe(first.id)
    await expect(alice.passes.create({ ...request, reason: 'another' }, { key: 'build 7', waitSeconds: 20 })).rejects.toMatchObject({
      code: 'E005',
    })
    const { id } = await alice.passes.create({ ...request, override: { hold_before_dispatch: true } })
    // A busy dispatcher may not have ended it in the moment that is waited for: then it is asked again.
    const cancelled = await until(
      async () => {
        const told = await alice.passes.cancel(id, { reason: 'no longer' })
        return told.cancelled ? told : undefined
      },
      { what: 'it is cancelled' },
    )
    expect(cancelled).toMatchObject({ id, cancelled: true, status: 'cancelled' })
    // No person cancelled it, whose name could be unverified.
    expect(cancelled).not.toHaveProperty('unverified')
    const other = await alice.passes.create({ ...request, override: { hold_before_dispatch: true } })
    expect(await client('ann').passes.cancel(other.id)).toMatchObject({ id: other.id, by: 'ann', unverified: true })
    await expect(alice.passes.cancel(first.id)).rejects.toMatchObject({ code: 'E043', context: { status: 409 } })
    await expect(alice.passes.create({ ...request, subagent: 'nobody' }, { waitSeconds: 20 })).rejects.toMatchObject({
      code: 'E001',
      context: { status: 404 },
    })
  })

  it('change the policy by compare-and-set, and see what it says', async () => {
    const ann = client('ann')
    const { version } = await ann.policy.get()
    const document = { pairs: { 'alice->audit': { timeout_ms: 20_000 } } } as never
    expect(await ann.policy.put(document, { base: version, reason: 'slower' })).toMatchObject({ version: version + 1, changed: true })
    await expect(ann.policy.put({} as never, { base: version })).rejects.toMatchObject({ code: 'E031', context: { status: 412 } })
    const { fields } = await ann.policy.explain('alice', 'audit')
    expect(fields).toContainEqual({ field: 'timeout_ms', value: 20_000, level: 'pair', path: expect.any(String) })
    await expect(ann.policy.put({ defaults: { timeout_ms: -1 } } as never, { base: version + 1 })).rejects.toMatchObject({
      context: { status: 400 },
    })
    const bare = await world.ask('ann', '/policy', { method: 'PUT', body: {} })
    expect(bare).toMatchObject({ status: 428, body: { code: 'E005' } })
    expect((await ann.agents()).map(({ agent }) => agent.name)).toEqual(['alice', 'audit', 'rewriter'])
  })

  it('see what died, drop it or ask for it again', async () => {
    const { world: made } = world.agents
    const bad = await made.send(new TextEncoder().encode('no request'))
    await made.end(bad)
    const ann = client('ann')
    await until(async () => (await ann.dlq.list()).letters.length > 0, { what: 'the dead letter is listed' })
    expect(await ann.dlq.show(bad.id)).toMatchObject({ letter: { id: bad.id, state: 'open' }, text: 'no request' })
    await expect(ann.dlq.requeue(bad.id)).rejects.toMatchObject({ code: 'E005' })
    await expect(client('ann~read').dlq.drop(bad.id)).rejects.toMatchObject({ code: 'E013' })
    expect(await ann.dlq.drop(bad.id, { reason: 'mended' })).toMatchObject({
      id: bad.id,
      action: 'drop',
      done: true,
      by: 'ann',
      unverified: true,
    })
    expect(await client('bob').dlq.drop(bad.id)).toMatchObject({ done: false, by: 'ann', unverified: true })
  })

  it('are limited: in rate, in size, in headers, and by where they come from', async () => {
    const narrow = await world.another({ port: 0, rate_burst: 2, rate_per_second: 0.01, body_bytes: 2_048 })
    const { url: at } = await narrow.listen()
    const ask = (token: string, init: RequestInit = {}) =>
      fetch(`${at}/api/pass-over/passes`, {
        ...init,
        headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json', ...init.headers },
      })
    const large = await ask('agent~alice', { method: 'POST', body: JSON.stringify({ ...request, reason: 'x'.repeat(4_000) }) })
    expect([large.status, ((await large.json()) as { code: string }).code]).toEqual([413, 'E005'])
    expect((await ask('ann')).status).toBe(200)
    expect((await ask('ann')).status).toBe(200)
    const third = await ask('ann')
    expect([third.status, ((await third.json()) as { code: string }).code]).toEqual([429, 'E014'])
    expect(Number(third.headers.get('retry-after'))).toBeGreaterThan(1)
    expect((await ask('bob', { headers: { origin: 'https://elsewhere.example' } })).status).toBe(403)
    expect(await raw(at, `GET / HTTP/1.1\r\nhost: x\r\nx: ${'y'.repeat(40_000)}\r\n\r\n`)).toMatch(/^HTTP\/1.1 431 .*problem\+json/s)
    expect(await raw(at, 'no http\r\n\r\n')).toMatch(/^HTTP\/1.1 400 .*problem\+json/s)
    await expect((await world.another({ port: Number(new URL(at).port) })).listen()).rejects.toBeInstanceOf(PortTakenError)
    // An address for examples, which no machine has.
    await expect((await world.another({ host: '192.0.2.1', port: 0 })).listen()).rejects.toBeInstanceOf(ListenError)
  })

  it('have tokens in a file that holds none of them, and need one where others could come', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'passover-tokens-'))
    const file = new TokenFile(join(folder, 'tokens.json'))
    const gateway = await world.another({ host: '0.0.0.0', port: 0 }, file)
    await expect(gateway.listen()).rejects.toBeInstanceOf(NeedsTokensError)
    const made = await Promise.all(['ann', 'bob', 'cem'].map((name) => file.add({ name, kind: 'person', scopes: ['read'] })))
    expect((await file.list()).map(({ name }) => name).sort()).toEqual(['ann', 'bob', 'cem'])
    const text = await readFile(file.path, 'utf8')
    for (const { token } of made) expect(text).not.toContain(token.slice(-32))
    expect((await stat(file.path)).mode & 0o777).toBe(0o600)
    const here = await world.another({}, file)
    const status = async (token?: string, path = '/api/pass-over/agents', method = 'GET') => {
      const headers = token === undefined ? {} : { authorization: `Bearer ${token}` }
      return (await here.app.request(`http://localhost${path}`, { method, headers })).status
    }
    expect([await status(), await status(made[0]?.token), await status('pso_00000000_x')]).toEqual([401, 200, 401])
    expect(await file.revoke(made[0]?.shown.id ?? '')).toBe(true)
    expect(await status(made[0]?.token)).toBe(401)
    const old = await file.add({ name: 'dee', kind: 'person', scopes: ['read'], expires_at: Date.now() - 1 })
    expect(await status(old.token)).toBe(401)
    // A proxy on this machine hands on the name that it was asked by; a token is what counts then.
    const proxied = await here.app.request('http://passover.example/api/pass-over/agents', {
      headers: { authorization: `Bearer ${made[1]?.token}` },
    })
    expect(proxied.status).toBe(200)
    for (const { id } of await file.list()) await file.revoke(id)
    // The last one is taken back because it leaked: that must not let in who has none.
    expect([await file.list(), await status()]).toEqual([[], 401])
    const open = await world.another({}, new TokenFile(join(folder, 'none.json')))
    const from = async (host: string, method = 'GET', path = 'agents') =>
      (await open.app.request(`http://${host}/api/pass-over/${path}`, { method })).status
    expect([await from('127.0.0.1:7420'), await from('evil.example'), await from('localhost', 'POST', 'passes/x/approve')]).toEqual([
      200, 403, 403,
    ])
    await rm(folder, { recursive: true })
  })
})

/** What the server answers to bytes. */
function raw(url: string, bytes: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connectSocket(Number(new URL(url).port), '127.0.0.1', () => socket.write(bytes))
    let text = ''
    socket.on('data', (chunk) => {
      text += chunk.toString()
    })
    socket.on('close', () => resolve(text))
    socket.on('error', (error) => (text === '' ? reject(error) : resolve(text)))
  })
}
