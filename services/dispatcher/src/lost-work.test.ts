import { pino } from 'pino'
import { expect, it } from 'vitest'
import type { Context } from './context.js'
import { LostWork } from './lost-work.js'

/** One that looks at these agents, of whom those whose name begins with `open` have open passes. */
function looking(names: string[], fails: string[] = []) {
  const rounds: (() => void)[] = []
  const looked: string[] = []
  const bus = {
    work: (agent: string, slot: string) => ({
      lookForLost: async () => {
        if (fails.includes(agent)) throw new Error('nobody answers')
        looked.push(`${agent} ${slot}`)
      },
      [Symbol.asyncDispose]: async () => undefined,
    }),
  }
  const clock = {
    after: (_ms: number, fn: () => void) => {
      rounds.push(fn)
      return { [Symbol.dispose]: () => undefined }
    },
  }
  const registry = { consuming: () => names.map((name) => ({ name })) }
  const context = { deps: { bus, clock, log: pino({ level: 'silent' }) }, registry, options: { lost_ms: 1 } }
  const lost = new LostWork(context as unknown as Context, (name) => name.startsWith('open'))
  lost.start()
  const round = async () => {
    rounds.shift()?.()
    for (let turn = 0; turn < 50; turn++) await new Promise((later) => setImmediate(later))
  }
  return { lost, looked, round }
}

it('looks at each slot of who has open passes, again and again, also when one look fails', async () => {
  const { lost, looked, round } = looking(['idle', 'open-lost', 'open-one'], ['open-lost'])
  await round()
  expect(looked).toEqual(['open-one high', 'open-one medium', 'open-one low'])
  await round()
  expect(looked).toHaveLength(6)
  await lost.stop()
  await round()
  expect(looked).toHaveLength(6)
})

it('looks at no more than 64 in a round, and at the others in the next', async () => {
  const { looked, round } = looking(Array.from({ length: 100 }, (_, n) => `open${n}`))
  await round()
  expect(new Set(looked).size).toBe(64 * 3)
  await round()
  expect(new Set(looked).size).toBe(100 * 3)
})
