import { randomUUID } from 'node:crypto'
import { FAULT_POINTS } from '@passover/sdk/internal'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Installation, runsOf } from '../../support/dispatcher/installation.js'
import type { TestProcess } from '../../support/processes/processes.js'
import { staysTrue, until } from '../../support/processes/until.js'
import { proxyTo } from '../../support/servers/proxy.js'

let here: Installation
let worker: TestProcess
beforeAll(async () => {
  here = await Installation.start({ dispatchers: 2 })
  worker = await here.worker('audit', 'only')
})
afterAll(async () => {
  await here?.[Symbol.asyncDispose]()
})

const work_context = { objective: 'do it' }

describe.concurrent('asking twice, from several processes', () => {
  test('the same id 50 times from 5 processes: one execution, the same result', async () => {
    const clients = await Promise.all(Array.from({ length: 5 }, () => here.originator()))
    const id = `order-${randomUUID()}`.slice(0, 40)
    const options = { subagent: 'audit', reason: 'sleep 300', work_context, id }
    const all = (await Promise.all(clients.map((client) => client.passes(10, options)))).flat()
    expect(all).toHaveLength(50)
    expect(new Set(all.map((one) => JSON.stringify(one.output)))).toEqual(new Set([JSON.stringify(all[0]?.output)]))
    expect(all[0]?.output).toMatchObject({ by: 'only', attempt: 1 })
    expect(runsOf(id, worker)).toEqual([1])
    const found = (await here.judge()).passes.get(`alice/audit/${id}`)
    expect(found).toMatchObject({ works: 1, returns: 1 })
  })

  test('the same id with another request: E005, and the first is untouched', async () => {
    const [one, other] = await Promise.all([here.originator(), here.originator()])
    const own = await here.worker('keeper', 'keeper')
    const id = randomUUID()
    const first = one.pass('keeper', 'wait', { id })
    await own.heard('run')
    expect(await other.pass('keeper', 'echo', { id }).outcome()).toMatchObject({ code: 'E005', context: { field: 'id' } })
    await staysTrue(() => !first.settled(), { what: 'the first runs on', for_ms: 500 })
    own.tell({ do: 'release' })
    expect(await first.outcome()).toMatchObject({ output: { by: 'keeper', attempt: 1 } })
    expect(runsOf(id, own)).toEqual([1])
  })
})

describe.concurrent('an originator process that is cut off or gone', () => {
  test('its connection is cut while its return is stored: it hears of it soon after it is back, without a new pass', async () => {
    await using proxy = await proxyTo(here.world.nats.url)
    const own = await here.worker('cut', 'cut')
    const alice = await here.originator('alice', { NATS_URL: proxy.url })
    const pass = alice.pass('cut', 'wait')
    await own.heard('run')
    const key = await pass.key()
    proxy.cut()
    own.tell({ do: 'release' })
    await here.world.state(key, 'done')
    expect(pass.settled()).toBe(false)
    proxy.mend()
    expect(await pass.outcome()).toMatchObject({ output: { by: 'cut', attempt: 1 } })
    const found = (await here.judge()).passes.get(`alice/cut/${key.id}`)
    expect(found).toMatchObject({ requests: [expect.any(Number)], works: 1, returns: 1 })
  })

  test('it is killed while its pass runs; another one that asks again with the id gets the stored result', async () => {
    const own = await here.worker('offline', 'offline')
    const gone = await here.originator()
    const id = randomUUID()
    const pass = gone.pass('offline', 'wait', { id })
    await own.heard('run')
    const key = await pass.key()
    await gone.process.kill()
    own.tell({ do: 'release' })
    await here.world.state(key, 'done')
    const again = await here.originator()
    expect(await again.pass('offline', 'wait', { id }).outcome()).toMatchObject({ output: { by: 'offline', attempt: 1 } })
    expect(await again.handle(id, 'offline').outcome()).toMatchObject({ output: { by: 'offline', attempt: 1 } })
    expect(runsOf(id, own)).toEqual([1])
  })

  const points = FAULT_POINTS.filter((point) => point.startsWith('pass-over:'))
  test.each(points)('killed with SIGKILL at %s: its successor asks for the same id, one execution', async (point) => {
    const id = randomUUID()
    const doomed = await here.originator('alice', { KILL_AT: point })
    doomed.pass('audit', 'sleep 100', { id })
    expect(await doomed.process.exited).toMatchObject({ signal: 'SIGKILL' })
    const again = await here.originator()
    expect(await again.pass('audit', 'sleep 100', { id }).outcome()).toMatchObject({ output: { by: 'only', attempt: 1 } })
    expect(runsOf(id, worker)).toEqual([1])
    expect((await here.judge()).passes.get(`alice/audit/${id}`)).toMatchObject({ works: 1, returns: 1 })
  })
})

// Last: everybody is cut off at once.
describe('the server is killed and comes back', () => {
  test('everything consumes again: admission, work, timekeeping, returns and questions', async () => {
    const alice = await here.originator()
    const own = await here.worker('restarted', 'restarted')
    const open = alice.pass('restarted', 'wait')
    await own.heard('run')
    const dying = alice.pass('restarted', 'sleep 60000', { timeout_ms: 5_000 })
    await dying.key()
    await here.world.nats.node.kill()
    await here.world.nats.node.restart()
    own.tell({ do: 'release' })
    // Nobody is sure that it was the first delivery: whichever attempt it is, it is one return.
    expect(await open.outcome()).toMatchObject({ output: { by: 'restarted' } })
    expect(await dying.outcome()).toMatchObject({ code: 'E010' })
    const key = await open.key()
    const after = await until(
      async () => {
        const outcome = await alice.pass('restarted', 'echo').outcome()
        return outcome.output
      },
      { what: 'a new pass goes through', deadline_ms: 30_000 },
    )
    expect(after.by).toBe('restarted')
    await until(async () => (await here.world.bus.ask({ op: 'pass', ...key })) !== undefined, {
      what: 'the audit answers',
      deadline_ms: 30_000,
    })
    expect((await here.judge()).problems).toEqual([])
  })
})
