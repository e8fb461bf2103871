import { once } from 'node:events'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { healthPort, openBus, processMetrics, serveHealth } from '@passover/bus'
import { Health, healthy, unhealthyIf } from '@passover/core'
import { healthReport } from '@passover/schemas'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { byHand, untilReady } from '../../support/attacks/broken-topology.js'
import { AgentWorld } from '../../support/dispatcher/agents.js'
import { until } from '../../support/processes/until.js'
import { natsFixture } from '../../support/servers/nats.js'
import { proxyTo } from '../../support/servers/proxy.js'

describe('the endpoints', () => {
  test('answer 200 or 503 with the report, on loopback only, and nothing else', async () => {
    let trouble: string | undefined
    const health = new Health({
      process: 'x',
      clock: { now: () => 1, monotonic: () => 1, after: () => ({ [Symbol.dispose]: () => undefined }) },
      onChange: () => undefined,
    })
    health.watch('a', 'needed', () => unhealthyIf(trouble))
    health.watch('b', 'needed', () => (trouble === 'dead' ? { state: 'failed', what: 'dead', restart_helps: true } : healthy()))
    await using endpoint = await serveHealth(() => health.report(), 0)
    expect(new URL(endpoint.url).hostname).toBe('127.0.0.1')
    const codes = async () => Promise.all(['livez', 'readyz'].map(async (path) => (await fetch(`${endpoint.url}/${path}`)).status))
    expect(await codes()).toEqual([200, 200])
    trouble = 'it is gone'
    expect(await codes()).toEqual([200, 503])
    const report = healthReport.parse(await (await fetch(`${endpoint.url}/readyz`)).json())
    expect(report).toMatchObject({ ready: false, checks: [{ name: 'a', state: 'recovering', what: 'it is gone' }, { name: 'b' }] })
    trouble = 'dead'
    expect(await codes()).toEqual([503, 503])
    const others = [fetch(endpoint.url), fetch(`${endpoint.url}/readyz`, { method: 'POST' })]
    expect((await Promise.all(others)).map(({ status }) => status)).toEqual([404, 404])
  })

  test('answer one request of a connection, make the metrics once a second, and answer a probe beside connections that ask nothing', async () => {
    const health = new Health({
      process: 'x',
      clock: { now: () => 1, monotonic: () => 1, after: () => ({ [Symbol.dispose]: () => undefined }) },
      onChange: () => undefined,
    })
    let made = 0
    const now = vi.spyOn(performance, 'now').mockReturnValue(1_000)
    onTestFinished(() => now.mockRestore())
    await using endpoint = await serveHealth(
      () => health.report(),
      0,
      () => {
        made += 1
        return [processMetrics()]
      },
    )
    const open = () => connect(Number(new URL(endpoint.url).port), '127.0.0.1').on('error', () => undefined)
    const asked = open()
    asked.write('GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(20))
    const answers = (await text(asked)).match(/HTTP\/1\.1 \d+/g) ?? []
    expect(answers.filter((line) => line.endsWith('200'))).toHaveLength(1)
    const metrics = async () => expect((await fetch(`${endpoint.url}/metrics`)).status).toBe(200)
    await Promise.all(Array.from({ length: 10 }, metrics))
    expect(made).toBe(1)
    now.mockReturnValue(2_000)
    await metrics()
    expect(made).toBe(2)
    const idle = Array.from({ length: 200 }, open)
    await Promise.all(idle.map((socket) => once(socket, 'connect')))
    expect((await fetch(`${endpoint.url}/livez`)).status).toBe(200)
    for (const socket of idle) socket.destroy()
  })

  test('are asked for by PASSOVER_HEALTH_PORT', () => {
    expect([{}, { PASSOVER_HEALTH_PORT: '' }, { PASSOVER_HEALTH_PORT: '0' }].map(healthPort)).toEqual([undefined, undefined, 0])
    for (const told of ['x', '-1', '65536', '1.5']) expect(() => healthPort({ PASSOVER_HEALTH_PORT: told })).toThrow(RangeError)
  })
})

describe('the connection', () => {
  test('one that says nothing any more is given up, and another is made', async () => {
    await using nats = await natsFixture()
    await using proxy = await proxyTo(nats.url)
    await using bus = await openBus({ servers: proxy.url, identity: 'passover', onError: () => undefined })
    await bus.ensureTopology()
    let reconnected = 0
    bus.onReconnect(() => (reconnected += 1))
    const since = performance.now()
    proxy.silence()
    await until(() => reconnected > 0, { what: 'another connection', deadline_ms: 120_000 })
    console.log(`a silent connection was replaced after ${Math.round(performance.now() - since)} ms`)
    expect((await bus.bounds()).last).toBe(0)
  })
})

test('after a change of leader of everything all are ready, and passes go on', async () => {
  await using made = await AgentWorld.start({ nodes: 3 })
  const [alice, audit] = [await made.agent('alice'), await made.agent('audit')]
  await audit.onPass(() => 'done', { log: () => undefined })
  const pass = async () =>
    (await alice.passOver({ subagent: 'audit', reason: 'r', timeout_ms: 60_000, work_context: { objective: 'o' } })).status
  expect(await pass()).toBe('completed')
  const { servers } = made.world.nats
  await byHand(servers, async (manager, nc) => {
    for await (const { config } of manager.streams.list()) await nc.request(`$JS.API.STREAM.LEADER.STEPDOWN.${config.name}`)
    for await (const { name } of manager.consumers.list('PASSOVER'))
      await nc.request(`$JS.API.CONSUMER.LEADER.STEPDOWN.PASSOVER.${name}`).catch(() => undefined)
  })
  const ms = await untilReady([...made.world.dispatchers, ...made.audits, alice, audit])
  expect(await pass()).toBe('completed')
  console.log(`ready ${Math.round(ms)} ms after the leaders stepped down`)
})
