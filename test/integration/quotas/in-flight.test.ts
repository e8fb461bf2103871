import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { connect as connectSocket, type Socket } from 'node:net'
import { CONTENT_TYPE, PartError } from '@passover/bus'
import { timeAnswer } from '@passover/schemas'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { ByteLimiter } from '../../../packages/bus/src/stores/byte-limiter.js'
import { type PermittedAgents, permittedAgents } from '../../support/dispatcher/permitted-agents.js'
import { GatewayWorld } from '../../support/fixtures/gateway.js'
import { until } from '../../support/processes/until.js'

let world: PermittedAgents<'alice' | 'scout'>
beforeAll(async () => {
  world = await permittedAgents({ names: ['alice', 'scout'] })
})
afterAll(() => world?.[Symbol.asyncDispose]())

it('answers E014 beyond the questions that one asker may have under way, and another asker at once', async () => {
  await using probe = await world.probe('scout')
  const question = JSON.stringify({ op: 'list', limit: 50 })
  const answers = Array.from({ length: 200 }, () => probe.nc.request('ask.scout', question, { timeout: 20_000 }))
  const time = timeAnswer.parse(await world.person.ask({ op: 'time' }, { timeout_ms: 20_000 }))
  expect(time.ok).toBe(true)
  const codes = (await Promise.all(answers)).map((answer) => (answer.json() as { error?: { code: string } }).error?.code)
  // How many are refused depends on how quickly the audit answers the others.
  expect(codes.filter((code) => code === 'E014').length).toBeGreaterThan(0)
  expect(codes.filter((code) => code === undefined).length).toBeGreaterThanOrEqual(4)
  expect((await probe.nc.request('ask.scout', question, { timeout: 20_000 })).json()).toMatchObject({ ok: true })
})

it('loads no more of a part than it may have, whatever its owner wrote about it', async () => {
  const { subjects } = world.fixture
  const hash = createHash('sha256').update('x').digest('hex')
  const part = { name: 'artifact:0', size: 1024 ** 4, hash, content_type: CONTENT_TYPE.json, owner: 'scout' }
  const refusal = await world.person.parts.fetch(part).catch((error: unknown) => error)
  expect(refusal).toBeInstanceOf(PartError)
  expect(refusal).toMatchObject({ reason: 'too_large' })
  expect(subjects.partsBucket('scout')).toBeTruthy()
})

it('bounds the bytes that are loaded at a time, and loads in order', async () => {
  const loading = new ByteLimiter(100)
  const [begun, done]: [string[], (() => void)[]] = [[], []]
  const load = (name: string, bytes: number) =>
    loading.do(bytes, async () => {
      begun.push(name)
      await new Promise<void>((resolve) => done.push(resolve))
    })
  const all = [load('a', 60), load('b', 40), load('c', 500), load('d', 1)]
  expect(begun).toEqual(['a', 'b'])
  done.shift()?.()
  await all[0]
  expect(begun).toEqual(['a', 'b'])
  done.shift()?.()
  await until(() => begun.includes('c'), { what: 'the largest, alone' })
  expect(begun).toEqual(['a', 'b', 'c'])
  done.shift()?.()
  await until(() => begun.includes('d'), { what: 'the last' })
  done.shift()?.()
  await Promise.all(all)
})

it('gives up a body that stalls, and takes no more than it may at a time', async () => {
  await using gateway = await GatewayWorld.start({ port: 0, uploads: 4, uploads_a_token: 2, stall_ms: 400 })
  const { url } = await gateway.gateway.listen()
  const { port, hostname } = new URL(url)
  const sockets: Socket[] = []
  const upload = async (token: string): Promise<() => string> => {
    const socket = connectSocket(Number(port), hostname)
    sockets.push(socket)
    let heard = ''
    socket.on('data', (data) => {
      heard += String(data)
    })
    await once(socket, 'connect')
    const head = `POST /api/pass-over/passes HTTP/1.1\r\nhost: ${hostname}\r\nauthorization: Bearer ${token}\r\ncontent-type: application/json\r\ncontent-length: 1000000\r\n\r\n{`
    socket.write(head)
    return () => heard
  }
  const heard = [await upload('ann'), await upload('ann'), await upload('ann')]
  await until(() => heard.some((one) => one().startsWith('HTTP/1.1 503')), { what: 'the refusal of one too many' })
  await until(() => heard.filter((one) => one().startsWith('HTTP/1.1 408')).length === 2, { what: 'the end of the stalled ones' })
  const metrics = await (await gateway.gateway.app.request('http://localhost/metrics', { headers: { authorization: 'Bearer ann' } })).text()
  expect(metrics).toMatch(/passover_http_requests_total\{operation="createPass",status="503"\} 1\b/)
  for (const socket of sockets) socket.destroy()
})
