import { connect, type WorkerEvent } from '@passover/sdk'
import { describe, expect, it } from 'vitest'
import { AgentWorld } from '../../support/dispatcher/agents.js'
import { until } from '../../support/processes/until.js'
import { proxyTo } from '../../support/servers/proxy.js'

const work_context = { objective: 'do it' }

describe('when nobody is there', () => {
  it('connect: E040 without a server', async () => {
    await expect(connect({ agent: 'alice', servers: 'nats://127.0.0.1:1' })).rejects.toMatchObject({ code: 'E040' })
  })

  it('passOver: E040 soon after 5 s when the server is cut off', async () => {
    await using world = await AgentWorld.start({ audit: false })
    await using proxy = await proxyTo(world.world.nats.url)
    const alice = await world.agent('alice', undefined, proxy.url)
    await world.world.agent('audit')
    // The first one makes it listen.
    const before = alice.passOver({ subagent: 'audit', reason: 'x', work_context })
    await before.stored
    proxy.cut()
    const begun = Date.now()
    // Its own time would be over much later.
    await expect(alice.passOver({ subagent: 'audit', reason: 'x', work_context, timeout_ms: 120_000 })).rejects.toMatchObject({
      code: 'E040',
    })
    expect(Date.now() - begun).toBeGreaterThan(3_000)
    expect(Date.now() - begun).toBeLessThan(25_000)
  })

  it('passOver: E040 at its timeout plus 5 s without a dispatcher', async () => {
    await using world = await AgentWorld.start({ audit: false, dispatchers: [] })
    const alice = await world.agent('alice')
    const begun = Date.now()
    await expect(alice.passOver({ subagent: 'audit', reason: 'x', work_context, timeout_ms: 1_000 })).rejects.toMatchObject({
      code: 'E040',
    })
    expect(Date.now() - begun).toBeGreaterThanOrEqual(5_900)
    expect(Date.now() - begun).toBeLessThan(35_000)
    expect(alice.awaited).toBe(0)
  })

  it('onPass: E040 without a dispatcher, but works without one where its consumers exist', async () => {
    await using world = await AgentWorld.start({ audit: false, dispatchers: [] })
    const lonely = await world.agent('lonely')
    await expect(lonely.onPass(() => 'x')).rejects.toMatchObject({ code: 'E040' })
    await world.world.agent('known')
    const known = await world.agent('known')
    const worker = await known.onPass(() => 'x')
    await worker.drain()
  })

  it('onPass: E013 where registration is closed', async () => {
    await using world = await AgentWorld.start({ audit: false, dispatchers: [{ registration: 'closed' }] })
    const stranger = await world.agent('stranger')
    await expect(stranger.onPass(() => 'x')).rejects.toMatchObject({ code: 'E013' })
  })
})

describe('a worker says what happens to it', () => {
  it('that it waits, how a pass failed, and that the server is lost and found again', async () => {
    await using world = await AgentWorld.start({ audit: false })
    await using proxy = await proxyTo(world.world.nats.url)
    const greeter = await world.agent('greeter', undefined, proxy.url)
    const alice = await world.agent('alice')
    const events: WorkerEvent[] = []
    const handler = () => {
      throw new Error('no such table')
    }
    await using _worker = await greeter.onPass(handler, { concurrency: 3, log: (event) => void events.push(event) })
    expect(events).toEqual([{ kind: 'waits', text: 'greeter is waiting for work (up to 3 at a time)' }])
    const asked = alice.passOver({ subagent: 'greeter', reason: 'x', work_context })
    await expect(asked).rejects.toMatchObject({ code: 'E011' })
    // That it cannot be seen may be told at any time.
    const seen = () => events.filter(({ kind }) => kind !== 'unseen')
    await until(() => seen().length > 1, { what: 'it says how the pass failed' })
    expect(seen()[1]).toMatchObject({
      kind: 'failed',
      attempt: 1,
      error: { code: 'E011' },
      text: expect.stringMatching(/no such table\n +at /),
    })
    // How the server is, is told only when it is known that it is there.
    const told = () =>
      seen()
        .slice(2)
        .map(({ kind }) => kind)
    proxy.cut()
    await until(() => told()[0] === 'lost', { what: 'it says that the server is lost' })
    proxy.mend()
    await until(() => told()[1] === 'found', { what: 'it says that the server is found again, and nothing before' })
  })
})

describe('when the server restarts', () => {
  it('goes on: passes that were open end, and new ones work', async () => {
    await using world = await AgentWorld.start()
    const alice = await world.agent('alice')
    const steady = await world.agent('steady')
    const waiting: ((text: string) => void)[] = []
    await using _worker = await steady.onPass((pass) =>
      pass.reason === 'wait' ? new Promise<string>((resolve) => waiting.push(resolve)) : 'at once',
    )
    const open = alice.passOver({ subagent: 'steady', reason: 'wait', work_context })
    await until(() => waiting.length === 1, { what: 'the handler runs' })
    await world.world.nats.node.kill()
    await world.world.nats.node.restart()
    waiting[0]?.('across the restart')
    expect((await open).output).toBe('across the restart')
    const after = await alice.passOverWithRetry({ subagent: 'steady', reason: 'x', work_context }, { retry_delay_ms: 200 })
    expect(after.output).toBe('at once')
  })
})
