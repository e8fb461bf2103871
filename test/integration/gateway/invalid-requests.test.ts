import { connect } from 'node:net'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { encode, openBus } from '@passover/bus'
import { startGateway } from '@passover/gateway'
import { HEADER } from '@passover/schemas'
import { pino } from 'pino'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { clockOf } from '../../support/dispatcher/dispatcher.js'
import { GatewayWorld, TEST_TOKENS } from '../../support/fixtures/gateway.js'
import { until } from '../../support/processes/until.js'

const MIB = 1024 * 1024

describe('requests that the HTTP API cannot take', () => {
  let world: GatewayWorld
  let port: number
  const logged: string[] = []
  const opened: AsyncDisposable[] = []

  beforeAll(async () => {
    world = await GatewayWorld.start()
    const { servers } = world.agents.world.nats
    const bus = await openBus({ servers, identity: 'passover', onError: () => undefined })
    const log = pino({ level: 'warn' }, { write: (line: string) => void logged.push(line) })
    const connectAs = (identity: string) => openBus({ servers, identity, onError: () => undefined })
    const gateway = startGateway({ bus, clock: clockOf(bus), log, connect: connectAs, tokens: TEST_TOKENS }, { port: 0 })
    opened.push(gateway, bus)
    port = Number(new URL((await gateway.listen()).url).port)
  })
  afterAll(async () => {
    for (const one of opened) await one[Symbol.asyncDispose]()
    await world?.[Symbol.asyncDispose]()
  })

  /** Sends bytes as they are and reads until the gateway closes the connection. */
  function raw(head: string, { hangUp = false } = {}): Promise<string> {
    return new Promise((resolve, reject) => {
      const socket = connect(port, '127.0.0.1')
      let answer = ''
      socket.setEncoding('utf8')
      socket.on('data', (text: string) => {
        answer += text
      })
      socket.on('close', () => resolve(answer))
      socket.on('error', reject)
      socket.write(head, () => hangUp && socket.destroy())
    })
  }

  const request = (line: string, headers: string[], body = '') =>
    [`${line} HTTP/1.1`, 'Authorization: Bearer ann', 'Connection: close', ...headers, '', body].join('\r\n')

  it.each(['127.999.0.1', '127.0.0.1:99999', 'a b', 'a/b', '[::1', 'localhost:port', '\u00e9xample', '', '@', 'a@b', '#'])(
    'answers a host %j with a problem',
    async (host) => {
      const answer = await raw(request('GET /api/pass-over/passes', [`Host: ${host}`]))
      expect(answer).toMatch(/^HTTP\/1\.1 400 /)
      expect(answer.toLowerCase()).toContain('content-type: application/problem+json; charset=utf-8')
      expect(answer.toLowerCase()).toContain('x-content-type-options: nosniff')
      expect(JSON.parse(answer.slice(answer.indexOf('{'), answer.lastIndexOf('}') + 1))).toMatchObject({ status: 400, code: 'E005' })
    },
  )

  it.each(['/api/pass-over/passes/%ff', '/api/pass-over/passes/%c3%28', '/%E0%A4%A', '/api/pass-over/passes/%'])(
    'answers a path %s that is not UTF-8 with a problem',
    async (path) => {
      const answer = await raw(request(`GET ${path}`, ['Host: localhost']))
      expect(answer).toMatch(/^HTTP\/1\.1 400 /)
      expect(answer).toContain('application/problem+json')
    },
  )

  it.each(['"__proto__":{"a":1}', '"meta":[{"__pr\\u006fto__":1}]'])('refuses a body with the name __proto__: %s', async (member) => {
    const body = `{"subagent":"audit","reason":"r","work_context":{"objective":"o",${member}}}`
    const head = ['Host: localhost', 'Content-Type: application/json', `Content-Length: ${body.length}`]
    const answer = await raw(request('POST /api/pass-over/passes', head, body))
    expect(answer).toMatch(/^HTTP\/1\.1 400 /)
    expect(answer).toContain('body: the name __proto__ is not allowed')
  })

  it.each([
    ['nested more than 64 levels deep', '['.repeat(3_900_000) + ']'.repeat(3_900_000)],
    ['more than 300000 values', `{"subagent":"audit","reason":"\\"[","work_context":{"list":[${'0,'.repeat(3_900_000)}0]}}`],
  ])('refuses a body that is %s before it is parsed', async (why, body) => {
    const answer = await world.ask('agent~alice', '/passes', { body })
    expect(answer).toMatchObject({ status: 400, body: { code: 'E005', detail: expect.stringContaining(why) } })
  })

  it('answers one request of a connection, and refuses those that come before the answer', async () => {
    const line = 'GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n'
    const answer = await raw(line.repeat(20))
    expect(answer.match(/^HTTP\/1\.1 \d+/gm)).toEqual(['HTTP/1.1 200', 'HTTP/1.1 503'])
    const document = await fetch(`http://127.0.0.1:${port}/openapi.json`)
    expect(document.headers.get('content-type')).toContain('application/json')
    expect(await document.json()).toMatchObject({ openapi: '3.1.0' })
  })

  it('does not match a weak tag in If-Match', async () => {
    const { body, headers } = await world.ask<{ version: number }>('ann', '/policy')
    const etag = headers.get('etag') ?? ''
    const put = (tag: string) =>
      world.ask('ann', '/policy', { method: 'PUT', body: { defaults: { timeout_ms: 30_000 } }, headers: { 'if-match': tag } })
    expect(await put(`W/${etag}`)).toMatchObject({ status: 412, body: { code: 'E031' } })
    expect((await put('*')).status).toBe(400)
    expect((await world.ask<{ version: number }>('ann', '/policy')).body.version).toBe(body.version)
    expect((await put(etag)).status).toBe(200)
  })

  it('does not log an upload that its sender ends as a failure', async () => {
    const before = await metric()
    const head = ['Host: localhost', 'Content-Type: application/json', 'Content-Length: 100000']
    for (let sent = 0; sent < 5; sent++) await raw(request('POST /api/pass-over/passes', head, '{"subagent":"audit"'), { hangUp: true })
    await expect.poll(metric, { timeout: 20_000 }).toBe(before + 5)
    expect(logged.filter((line) => line.includes('a request failed'))).toEqual([])
  })

  /** Ended uploads that the gateway has answered. */
  async function metric(): Promise<number> {
    const answer = await raw(request('GET /metrics', ['Host: localhost']))
    return Number(/passover_http_requests_total\{operation="createPass",status="400"\} (\d+)/.exec(answer)?.[1] ?? 0)
  }

  it('escapes what a terminal would run or hide, and stays the same JSON', async () => {
    const reason = '\u202e\u009b31m\u2028\u200b ok'
    const { world: made } = world.agents
    await made.agent('alice', { originates: 'always' })
    await made.agent('audit')
    const { body } = await world.ask<{ id: string }>('agent~alice', '/passes', {
      body: { subagent: 'audit', reason, work_context: { objective: 'o' } },
    })
    const answer = await raw(request(`GET /api/pass-over/passes/${body.id}`, ['Host: localhost', 'Prefer: wait=0']))
    expect(answer).not.toMatch(/[\u202e\u009b\u2028\u200b]/)
    const shown = await world.ask<{ pass: { reason: string } }>('ann', `/passes/${body.id}`)
    expect(shown.body.pass.reason).toBe(reason)
    expect(answer).toContain('\\u202e\\u009b31m\\u2028\\u200b ok')
  })

  it('keeps little of answers that nobody reads, cuts their readers off, and loads no output that is too large for it', async () => {
    const characters = 4 * 1024 * 1024
    // Six characters each as JSON: more than what the operating system takes for a reader.
    const output = '\u0001'.repeat(characters)
    const { agents } = world
    for (const name of ['alice', 'big']) await agents.world.agent(name, { originates: 'always' })
    const change = { type: 'file_modification', path: 'big.txt', old_content: 'old\n', reason: 'tidy', confidence: 'high' } as const
    const artifacts = [{ ...change, new_content: '\n'.repeat(600_000) }]
    await (await agents.agent('big')).onPass(async () => ({ summary: 'done', artifacts, output }))
    const alice = await agents.agent('alice')
    const handle = alice.passOver({ subagent: 'big', reason: 'r', work_context: { objective: 'o' } })
    await handle.result()
    const path = `/api/pass-over/passes/${handle.id}`
    const rates = { rate_per_second: 100_000, rate_burst: 100_000 }
    const gateway = await world.another({ port: 0, slow_ms: 3_000, answers_bytes_a_token: characters, ...rates })
    const { url } = await gateway.listen()
    const status = async (token: string) => {
      const response = await fetch(`${url}${path}`, { headers: { authorization: `Bearer ${token}` } })
      await response.arrayBuffer()
      return response.status
    }
    const unread = connect(Number(new URL(url).port), '127.0.0.1')
    unread.on('error', () => undefined)
    unread.write(`GET ${path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer agent~alice\r\n\r\n`)
    // The answer begins, and is not read on.
    await new Promise((begins) => unread.once('readable', begins))
    await until(async () => (await status('agent~alice')) === 503, { what: 'no more is made for that token' })
    expect(await status('ann')).toBe(200)
    await until(async () => (await status('agent~alice')) === 200, { what: 'its reader is cut off', deadline_ms: 20_000 })
    unread.destroy()
    const told = await fetch(`${url}${path}/plan?whole=true`, { headers: { authorization: 'Bearer ann' } })
    expect(await told.text()).toContain('600001 lines, which are too many to show here')

    const small = await world.another({ output_bytes: 1_024 * 1_024, ...rates })
    const ask = async (asked: string, init: RequestInit = {}) => {
      const response = await small.app.request(`http://localhost/api/pass-over/${asked}`, {
        ...init,
        headers: { authorization: 'Bearer agent~alice', ...init.headers },
      })
      return JSON.stringify(await response.json())
    }
    for (const asked of [`passes/${handle.id}`, 'returns?subagent=big', `passes/${handle.id}/plan`]) {
      const answer = await ask(asked)
      expect(answer).toContain('which is too large to load here')
      expect(answer.length).toBeLessThan(100_000)
    }
    const body = JSON.stringify({ subagent: 'big', reason: 'r', work_context: { objective: 'o' } })
    const headers = { 'content-type': 'application/json', prefer: 'wait=20' }
    expect(await ask('passes', { method: 'POST', body, headers })).toContain('which is too large to load here')
  })

  it('keeps no context of a pass whose return it waits for, and waits for a bounded number', async () => {
    setFlagsFromString('--expose-gc')
    const collect = runInNewContext('gc') as () => void
    const passes = 16
    for (const name of ['alice', 'waits']) await world.agents.world.agent(name, { originates: 'always' })
    const gateway = await world.another({ awaited_an_agent: passes, rate_burst: 10_000 })
    const work_context = { objective: 'o', files: [{ path: 'a.txt', content: 'x'.repeat(4 * MIB) }] }
    const body = JSON.stringify({ subagent: 'waits', reason: 'r', work_context, override: { hold_before_dispatch: true } })
    const create = () =>
      gateway.app.request('http://localhost/api/pass-over/passes', {
        method: 'POST',
        body,
        headers: { authorization: 'Bearer agent~alice', 'content-type': 'application/json' },
      })
    const kept = () => {
      collect()
      const { heapUsed, arrayBuffers } = process.memoryUsage()
      return heapUsed + arrayBuffers
    }
    const first = await create()
    expect([first.status, await first.text()]).toEqual([202, expect.stringContaining('requested')])
    const before = kept()
    for (let n = 1; n < passes; n++) expect((await create()).status).toBe(202)
    // Dispatcher and audit are in this process, and may still have some of the contexts in hand.
    await until(() => kept() - before < 16 * MIB, { what: 'the contexts are let go of', every_ms: 200 })
    const refused = await create()
    expect(refused.status).toBe(503)
    expect(await refused.json()).toMatchObject({
      code: 'E014',
      retry_after_ms: 1_000,
      detail: expect.stringContaining('16 returns for alice'),
    })
  })

  it('loads no part of an output or context beyond its budget to wait, approve, deny or requeue', async () => {
    const { agents } = world
    const { bus } = agents.world
    for (const name of ['alice', 'large', 'lost']) await agents.world.agent(name, { originates: 'always' })
    const alice = await agents.agent('alice')
    const change = { type: 'file_modification', path: 'big.txt', old_content: 'old\n', reason: 'tidy', confidence: 'high' } as const
    const artifacts = [{ ...change, new_content: 'new\n'.repeat(600_000) }]
    await (await agents.agent('large')).onPass(async ({ objective }) => ({
      summary: objective === 'release' ? { decision: 'rejected', findings: ['bad'] } : 'done',
      artifacts,
    }))
    const loaded: unknown[] = []
    const watched = async (identity: string) => {
      const own = await openBus({ servers: agents.world.nats.servers, identity, onError: () => undefined })
      vi.spyOn(own.parts, 'fetch').mockImplementation(async (part) => {
        loaded.push(part.name)
        throw new Error('loaded')
      })
      return own
    }
    await using small = startGateway(
      { bus, clock: clockOf(bus), log: pino({ level: 'silent' }), connect: watched, tokens: TEST_TOKENS },
      { output_bytes: 1_024 * 1_024 },
    )
    const ask = async (token: string, path: string, body?: object, headers: Record<string, string> = {}) => {
      const response = await small.app.request(`http://localhost/api/pass-over/${path}`, {
        headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json', ...headers },
        ...(body && { method: 'POST', body: JSON.stringify(body) }),
      })
      return { status: response.status, body: (await response.json()) as Record<string, unknown> }
    }
    const due = (id: string, item: string) =>
      until(
        async () => {
          const { body } = await ask('ann', `passes/${id}`)
          return (body.due as { item: string } | undefined)?.item === item
        },
        { what: `${item} of ${id} waits` },
      )
    const request = (objective: string) => ({ subagent: 'large', reason: 'r', work_context: { objective } })
    const files = [{ path: 'big.txt', content: 'x'.repeat(2_000_000) }]
    const lost = alice.passOver({ subagent: 'lost', reason: 'r', work_context: { objective: 'o', files } })
    lost.catch(() => undefined)
    const dead = { originator: 'alice', subagent: 'lost', id: lost.id }
    const open = await agents.world.state(dead, 'open')
    const sequence = open.state === 'open' ? open.work.sequence : 0
    const error = { code: 'E011', message: 'lost' }
    await bus.publish({
      subject: bus.subjects.event(dead, 'dead_letter', 'passover'),
      data: encode({ v: 1, sequence, error }),
      headers: { [HEADER.code]: 'E011' },
    })

    const made = await ask('agent~alice', 'passes', request('apply'), { prefer: 'wait=20' })
    expect(made).toMatchObject({
      status: 200,
      body: { status: 'returned', withheld: expect.stringContaining('which is too large to load here') },
    })
    const id = String(made.body.id)
    await due(id, 'apply')
    for (const whole of [false, true]) {
      expect(await ask('ann', `passes/${id}/approve`, { item: 'apply', digest: 'any', whole })).toMatchObject({
        status: 404,
        body: {
          code: 'E041',
          detail: expect.stringContaining('which is too large to load here'),
          hint: expect.stringContaining('passover approve'),
        },
      })
    }
    expect(await ask('ann', `passes/${id}/deny`, { item: 'apply' })).toMatchObject({ status: 200, body: { decided: true } })
    const held = String((await ask('agent~alice', 'passes', request('release'))).body.id)
    await due(held, 'return')
    expect(await ask('ann', `passes/${held}/approve`, { item: 'return' })).toMatchObject({ status: 200, body: { decided: true } })
    await until(async () => (await ask('ann', `dlq/${lost.id}`)).status === 200, { what: 'the dead letter' })
    expect(await ask('ann', `dlq/${lost.id}/requeue`, {})).toMatchObject({
      status: 404,
      body: { code: 'E041', detail: expect.stringContaining('which is too large to check here') },
    })
    expect(loaded).toEqual([])
  })
})
