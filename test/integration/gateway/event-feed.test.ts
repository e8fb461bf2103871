import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { TokenFile } from '@passover/gateway'
import type { FeedEvent } from '@passover/schemas/http'
import { connectHttp } from '@passover/sdk/http'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { GatewayWorld } from '../../support/fixtures/gateway.js'
import { until } from '../../support/processes/until.js'

/** What the feed must tell: every stored message that is an event of a pass, in order. */
async function stored(world: GatewayWorld, from: number): Promise<number[]> {
  const { bus } = world.agents.world
  const sequences: number[] = []
  const reader = await bus.follow({ from, headers_only: true }, (message, fact) => {
    if (fact.type !== 'acknowledged' && fact.type !== 'advisory') sequences.push(message.sequence)
  })
  await reader.caughtUp
  await reader[Symbol.asyncDispose]()
  return sequences
}

describe('the feed of events', () => {
  let world: GatewayWorld
  beforeAll(async () => {
    world = await GatewayWorld.start()
    const { world: made } = world.agents
    await made.agent('alice', { originates: 'always' })
    await made.agent('other', { originates: 'always' })
    await made.agent('audit')
    await (await world.agents.agent('audit')).onPass(async () => 'done')
  })
  afterAll(() => world?.[Symbol.asyncDispose]())

  it('gives every event exactly once, in order, while the gateway is restarted under its reader', async () => {
    let gateway = await world.another({ port: 0, heartbeat_ms: 50 })
    const { url } = await gateway.listen()
    const port = Number(new URL(url).port)
    const begin = (await world.agents.world.bus.bounds()).last
    const heard: FeedEvent[] = []
    const stop = new AbortController()
    let reconnects = 0
    const reading = (async () => {
      const onReconnect = () => void reconnects++
      const wanted = { after: begin, signal: stop.signal, onReconnect }
      for await (const event of connectHttp({ url, token: 'ann' }).events(wanted)) heard.push(event)
    })()
    const alice = await world.agents.agent('alice')
    for (let round = 0; round < 4; round++) {
      await Promise.all(
        Array.from({ length: 10 }, () => alice.passOver({ subagent: 'audit', reason: 'r', work_context: { objective: 'o' } })),
      )
      await gateway[Symbol.asyncDispose]()
      // What is stored while no gateway is there must come too.
      await alice.passOver({ subagent: 'audit', reason: 'unseen', work_context: { objective: 'o' } })
      gateway = await world.another({ port, heartbeat_ms: 50 })
      await gateway.listen()
      const so_far = await stored(world, begin + 1)
      await until(() => heard.length >= so_far.length, { what: `everything was heard in round ${round}`, deadline_ms: 30_000 })
    }
    const wanted = await stored(world, begin + 1)
    stop.abort()
    await reading.catch(() => undefined)
    expect(heard.map(({ sequence }) => sequence)).toEqual(wanted)
    expect(reconnects).toBeGreaterThanOrEqual(4)
  })

  it('shows an agent its own passes only, and a filter what it names', async () => {
    const { url } = await (await world.another({ port: 0 })).listen()
    const begin = (await world.agents.world.bus.bounds()).last
    const seen = async (token: string, filter: object = {}) => {
      const stop = new AbortController()
      const found: FeedEvent[] = []
      const done = (async () => {
        for await (const event of connectHttp({ url, token }).events({ after: begin, signal: stop.signal, ...filter })) found.push(event)
      })()
      const end = () => {
        stop.abort()
        return done.catch(() => undefined)
      }
      return { found, end }
    }
    const readers = {
      ann: await seen('ann'),
      alice: await seen('agent~alice'),
      other: await seen('agent~other'),
      audit: await seen('agent~audit'),
    }
    const alice = await world.agents.agent('alice')
    const output = await alice.passOver({ subagent: 'audit', reason: 'r', work_context: { objective: 'o' } })
    const one = await seen('ann', { id: output.work_id })
    const kinds = (events: FeedEvent[]) => events.map(({ kind }) => kind)
    await until(async () => (kinds(readers.audit.found).includes('return') ? true : undefined), { what: 'the worker sees its return' })
    await until(async () => (kinds(one.found).includes('return') ? true : undefined), { what: 'the filter finds it' })
    await until(async () => (kinds(readers.alice.found).includes('return') ? true : undefined), { what: 'alice sees its return' })
    expect(kinds(readers.alice.found)).toEqual(['request', 'work', 'return'])
    expect(kinds(readers.audit.found)).toEqual(['work', 'return'])
    expect(readers.other.found).toEqual([])
    await Promise.all([...Object.values(readers), one].map(({ end }) => end()))
  })

  it('tells a subagent of no pass before it is admitted, and of one that is what comes, wherever it begins', async () => {
    const { url } = await (await world.another({ port: 0 })).listen()
    const { world: made } = world.agents
    await made.agent('idle')
    const begin = (await made.bus.bounds()).last
    const alice = await world.agents.agent('alice')
    const work_context = { objective: 'o' }
    const held = alice.passOver({ subagent: 'idle', reason: 'r', work_context, override: { hold_before_dispatch: true } })
    const key = { originator: 'alice', subagent: 'idle', id: held.id }
    await made.state(key, 'held')
    // It may publish a fence for any pass to it; that proves no admission.
    await made.step('fence', key, { attempt: 2 })
    await held.cancel()
    await expect(held.result()).rejects.toMatchObject({ code: 'E043' })
    const pass = alice.passOver({ subagent: 'idle', reason: 'r', work_context, timeout_ms: 4_000 })
    await made.state({ originator: 'alice', subagent: 'idle', id: pass.id }, 'open')
    const behind = (await made.bus.bounds()).last
    await expect(pass.result()).rejects.toMatchObject({ code: 'E010' })
    const read = async (after: number) => {
      const found: string[] = []
      for await (const { id, kind } of connectHttp({ url, token: 'agent~idle' }).events({ after })) {
        found.push(`${id === pass.id ? 'pass' : id === held.id ? 'held' : id} ${kind}`)
        if (kind === 'return' && id === pass.id) return found
      }
      return found
    }
    expect(await read(begin)).toEqual(['held fence', 'pass work', 'pass return'])
    expect(await read(behind)).toEqual(['pass return'])
  })

  it('ends when its token is taken back', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'passover-feed-'))
    const file = new TokenFile(join(folder, 'tokens.json'))
    const { url } = await (await world.another({ port: 0, recheck_ms: 20 }, file)).listen()
    const { token, shown } = await file.add({ name: 'ann', kind: 'person', scopes: ['read'] })
    const other = await file.add({ name: 'ann', kind: 'person', scopes: ['read'], expires_at: Date.now() + 3_600_000 })
    const stop = new AbortController()
    const reads = (with_token: string) => {
      const state = { open: true, heard: 0 }
      const done = (async () => {
        for await (const _ of connectHttp({ url, token: with_token }).events({ signal: stop.signal })) state.heard++
      })().finally(() => {
        state.open = false
      })
      done.catch(() => undefined)
      return { state, done }
    }
    const [revoked, kept] = [reads(token), reads(other.token)]
    const alice = await world.agents.agent('alice')
    const heard = async () => {
      await alice.passOver({ subagent: 'audit', reason: 'r', work_context: { objective: 'o' } })
      return revoked.state.heard > 0 && kept.state.heard > 0 ? true : undefined
    }
    await until(heard, { what: 'both feeds hear' })
    await file.revoke(shown.id)
    await expect(revoked.done).rejects.toMatchObject({ code: 'E013', context: { status: 401 } })
    const before = kept.state.heard
    await until(async () => (await heard()) && kept.state.heard > before, { what: 'the other one goes on' })
    expect(kept.state.open).toBe(true)
    stop.abort()
    await kept.done.catch(() => undefined)
    await rm(folder, { recursive: true })
  })

  it('sends away who takes nothing, and goes on for everybody else', async () => {
    const gateway = await world.another({ heartbeat_ms: 10, slow_ms: 2_000 })
    const open = (method: string) =>
      gateway.app.request('http://localhost/api/pass-over/events', { method, headers: { authorization: 'Bearer ann' } })
    const metric = async (what: string) => {
      const response = await gateway.app.request('http://localhost/metrics', { headers: { authorization: 'Bearer ann' } })
      return Number(new RegExp(`passover_gateway{what="${what}"} (\\d+)`).exec(await response.text())?.[1])
    }
    expect((await open('HEAD')).status).toBe(200)
    expect(await metric('feeds')).toBe(0)
    // Nobody reads its body: the heartbeats alone fill it. What is too late for one of them must not end the process.
    const { status } = await open('GET')
    expect([status, await metric('feeds')]).toEqual([200, 1])
    await until(async () => (await metric('feeds')) === 0, { what: 'it is sent away' })
    expect((await open('HEAD')).status).toBe(200)
  })

  it('counts those that come at once', async () => {
    const gateway = await world.another({ feeds_a_token: 2 })
    const headers = { authorization: 'Bearer ann' }
    const all = await Promise.all(
      Array.from({ length: 6 }, () => gateway.app.request('http://localhost/api/pass-over/events', { headers })),
    )
    expect(all.map(({ status }) => status).sort()).toEqual([200, 200, 503, 503, 503, 503])
    for (const { body } of all) await body?.cancel()
  })

  it('says so where it cannot go on after an id, and where too many are open', async () => {
    const gateway = await world.another({ port: 0, feeds_a_token: 1 })
    const { url } = await gateway.listen()
    const lost: string[] = []
    const stop = new AbortController()
    const reading = (async () => {
      const onLost = (what: string) => void lost.push(what)
      for await (const _ of connectHttp({ url, token: 'ann' }).events({ after: 9_000_000, signal: stop.signal, onLost })) break
    })()
    await until(async () => (lost.length > 0 ? true : undefined), { what: 'the reset is told' })
    expect(lost).toEqual(['reset'])
    const second = await fetch(`${url}/api/pass-over/events`, { headers: { authorization: 'Bearer ann' } })
    expect(second.status).toBe(503)
    expect(second.headers.get('retry-after')).toBe('5')
    expect(await second.json()).toMatchObject({ code: 'E014' })
    stop.abort()
    await reading.catch(() => undefined)
  })
})
