import { pino } from 'pino'
import { expect, it } from 'vitest'
import type { Context } from '../admission/context.js'
import { WorkConsumers } from './work-consumers.js'

/** Dispatchers' consumers where the server keeps places for those names, and nobody is registered; the first calls fail. */
function started(kept: string[], failing: { lists: number; removals: number }) {
  const rounds: (() => void)[] = []
  const asked: string[] = []
  const bus = {
    listReturnConsumers: async () => {
      asked.push('list')
      if (failing.lists-- > 0) throw new Error('nobody answers')
      return kept
    },
    removeReturns: async (name: string) => {
      asked.push(name)
      if (failing.removals-- > 0) throw new Error('nobody answers')
    },
  }
  const clock = {
    after: (_ms: number, fn: () => void) => {
      rounds.push(fn)
      return { [Symbol.dispose]: () => undefined }
    },
  }
  const registry = {
    consuming: () => [],
    get: (name: string) => (name === 'alice' ? { durable_returns: { from: 1 } } : undefined),
    table: { get: async () => undefined },
    onReturnsLeft: (_name: string): void => undefined,
  }
  const deps = { bus, clock, log: pino({ level: 'silent' }) }
  new WorkConsumers({ deps, registry, options: { consumers_ms: 1 } } as unknown as Context, () => undefined).start()
  const settled = () => new Promise((later) => setImmediate(later))
  const round = async () => {
    rounds.shift()?.()
    await settled()
  }
  return { asked, registry, round, settled }
}

// Fails where it is tried once: returns would wait for nobody, and stay in the stream for good.
it('a place for returns that was not removed at once is removed in a later round', async () => {
  const { asked, registry, round, settled } = started([], { lists: 0, removals: 2 })
  await settled()
  registry.onReturnsLeft('bob')
  await settled()
  for (let n = 0; n < 4; n++) await round()
  expect(asked).toEqual(['list', 'bob', 'bob', 'bob'])
})

it('places that were to go while no dispatcher ran go when one begins', async () => {
  const { asked, round, settled } = started(['alice', 'bob', 'gone'], { lists: 1, removals: 0 })
  await settled()
  for (let n = 0; n < 3; n++) await round()
  expect(asked).toEqual(['list', 'list', 'bob', 'gone'])
})

// Fails where they are made as if they had never been: one that is lost just then would be there again before its workers know (docs/architecture/storage.md#durable-consumers).
it('consumers that are there follow policy and registry, and are never made by that', async () => {
  const ensured: object[] = []
  const bus = {
    listReturnConsumers: async () => [],
    work: () => ({ created: async () => 1, [Symbol.asyncDispose]: async () => undefined }),
    ensureAgent: async (agent: string, how: object) => void ensured.push({ agent, ...how }),
  }
  const record = { name: 'audit', roles: { subagent: true, originates: 'within_a_pass' } }
  const registry = { consuming: () => [record], get: () => record }
  const clock = { after: () => ({ [Symbol.dispose]: () => undefined }), monotonic: () => 0 }
  const deps = { bus, clock, log: pino({ level: 'silent' }) }
  const context = { deps, registry, policy: { current: () => ({ document: {} }) }, options: { consumers_ms: 1, missing_ms: 1 } }
  new WorkConsumers(context as unknown as Context, () => 7).start()
  for (let turns = 0; turns < 100 && ensured.length === 0; turns++) await new Promise((later) => setImmediate(later))
  expect(ensured).toEqual([{ agent: 'audit', subagent: true, max_attempts: 3, lease_ms: expect.any(Number), lost: 'leave' }])
})

// Fails where each has its turn only: of 1,000 agents one that lost its consumers would be seen after 15 s.
it('of more agents than are looked at in one round those that lack a consumer are looked at in the first one', async () => {
  const names = Array.from({ length: 1_000 }, (_, n) => `agent${n}`)
  const records = names.map((name) => ({ name, roles: { subagent: name !== 'agent999', originates: 'within_a_pass' } }))
  const listed: { name: string; work: boolean; returns: boolean }[] = []
  const looked = new Set<string>()
  const rounds: (() => void)[] = []
  const bus = {
    listReturnConsumers: async () => [],
    findMissingConsumers: async (wanted: typeof listed) => {
      listed.push(...wanted)
      return ['agent777']
    },
    work: (agent: string) => ({
      created: async () => {
        looked.add(agent)
        return 1
      },
      [Symbol.asyncDispose]: async () => undefined,
    }),
    ensureAgent: async () => undefined,
  }
  const registry = { consuming: () => records, get: (name: string) => records.find((record) => record.name === name) }
  const clock = {
    after: (_ms: number, fn: () => void) => {
      rounds.push(fn)
      return { [Symbol.dispose]: () => undefined }
    },
    monotonic: () => 0,
  }
  const deps = { bus, clock, log: pino({ level: 'silent' }) }
  const context = { deps, registry, policy: { current: () => ({ document: {} }) }, options: { consumers_ms: 1, missing_ms: 1 } }
  const consumers = new WorkConsumers(context as unknown as Context, () => 7)
  const idle = async (before: number) => {
    for (let turns = 0; turns < 2_000 && looked.size <= before; turns++) await new Promise((later) => setImmediate(later))
    for (let turns = 0; turns < 2_000; turns++) await new Promise((later) => setImmediate(later))
  }
  consumers.start()
  await idle(998)
  looked.clear()
  rounds.shift()?.()
  await idle(199)
  expect([looked.size, looked.has('agent777'), looked.has('agent300')]).toEqual([201, true, false])
  expect(listed.filter(({ work }) => !work)).toEqual([{ name: 'agent999', work: false, returns: false }])
  await consumers.stop()
})
