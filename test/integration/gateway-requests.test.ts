import { connect } from 'node:net'
import { openBus } from '@passover/bus'
import { startGateway } from '@passover/gateway'
import { pino } from 'pino'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { clockOf } from '../support/dispatch.js'
import { GatewayWorld, TEST_TOKENS } from '../support/gateway.js'

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
})
