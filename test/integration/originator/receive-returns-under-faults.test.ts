import { randomBytes } from 'node:crypto'
import { type Bus, openBus, type ReceivedReturn } from '@passover/bus'
import type { Pass } from '@passover/sdk'
import { createAgent } from '@passover/sdk/internal'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { AgentWorld } from '../../support/dispatcher/agents.js'
import { clockOf } from '../../support/dispatcher/dispatcher.js'

/** Live hearing in trouble: missed messages, a restarted server (nats.node#590), many replicas. */
let all: AgentWorld
let open: () => void = () => undefined
let gate = Promise.resolve()
const close = () => {
  gate = new Promise((resolve) => {
    open = resolve
  })
}
beforeAll(async () => {
  all = await AgentWorld.start()
  const worker = await all.agent('echo')
  await worker.onPass(
    async (pass: Pass) => {
      await gate
      return pass.reason
    },
    { concurrency: 256 },
  )
})
afterAll(() => all?.[Symbol.asyncDispose]())

const asks = (reason: string) => ({ subagent: 'echo', reason, work_context: { objective: 'o' }, timeout_ms: 300_000 })

/** An agent of its own session; `hear` stands between the connection and what the agent hears. */
async function agentOn(name: string, session_id: string, hear?: (heard: ReceivedReturn, on: (heard: ReceivedReturn) => void) => void) {
  const bus = await openBus({ servers: all.world.nats.servers, identity: name, onError: () => undefined })
  const deps = { bus: hear ? hearing(bus, hear) : bus, clock: clockOf(bus), random: { bytes: (n: number) => randomBytes(n) } }
  return createAgent(deps, { directory: '/p', sessionId: session_id })
}

function hearing(bus: Bus, hear: (heard: ReceivedReturn, on: (heard: ReceivedReturn) => void) => void): Bus {
  const subscribeReturns: Bus['subscribeReturns'] = (originator, id, on, options) =>
    bus.subscribeReturns(originator, id, (heard) => hear(heard, on), options)
  return new Proxy(bus, {
    get(target, name) {
      if (name === 'subscribeReturns') return subscribeReturns
      const value: unknown = Reflect.get(target, name, target)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
}

describe('hearing returns in trouble', () => {
  it('one that hears nothing at all reads, and has every return', async () => {
    const deaf = await agentOn('dee', 'session-of-dee', () => undefined)
    const outputs = await Promise.all(Array.from({ length: 20 }, (_, n) => deaf.passOver(asks(String(n)))))
    expect(outputs.map(({ output }) => output)).toEqual(outputs.map((_, n) => String(n)))
    await deaf[Symbol.asyncDispose]()
  })

  it('a server killed and started again in mid-pass: every consumer consumes again, every return is had', async () => {
    const alice = await all.agent('alice')
    close()
    const passes = Array.from({ length: 20 }, (_, n) => alice.passOver(asks(`over ${n}`)))
    await Promise.all(passes.map(({ stored }) => stored))
    await all.world.nats.node.kill()
    await all.world.nats.node.restart()
    open()
    const outputs = await Promise.all(passes)
    expect(outputs.map(({ output }) => output)).toEqual(passes.map((_, n) => `over ${n}`))
    const later = await Promise.all(Array.from({ length: 5 }, (_, n) => alice.passOver(asks(`later ${n}`))))
    expect(later).toHaveLength(5)
  })

  it('twenty replicas of one originator, 64 passes in flight each: each hears its own returns and no others', async () => {
    const heard = new Map<number, Set<string>>()
    const replicas = await Promise.all(
      Array.from({ length: 20 }, (_, n) => {
        heard.set(n, new Set())
        return agentOn('rae', `session-${n}`, (one, on) => {
          heard.get(n)?.add(one.key.id)
          on(one)
        })
      }),
    )
    for (const agent of replicas) await agent.passOver(asks('first'))
    const passes = replicas.map((agent, n) => Array.from({ length: 64 }, (_, m) => agent.passOver(asks(`${n} ${m}`))))
    const outputs = await Promise.all(passes.map((own) => Promise.all(own)))
    for (const [n, own] of outputs.entries()) {
      expect(own.map(({ output }) => output)).toEqual(own.map((_, m) => `${n} ${m}`))
      const ids = new Set(passes[n]?.map(({ id }) => id))
      const others = new Set(passes.flatMap((some, at) => (at === n ? [] : some.map(({ id }) => id))))
      expect([...(heard.get(n) ?? [])].filter((id) => others.has(id))).toEqual([])
      expect(ids.size).toBe(64)
    }
    await Promise.all(replicas.map((agent) => agent[Symbol.asyncDispose]()))
  }, 180_000)
})
