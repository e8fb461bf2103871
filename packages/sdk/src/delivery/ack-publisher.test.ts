import { type Bus, decode, type PublishMessage, type PublishResult, Subjects } from '@passover/bus'
import { sequencesIn } from '@passover/core'
import { expect, it } from 'vitest'
import type { Deps } from '../runtime/dependencies.js'
import { AckPublisher } from './ack-publisher.js'

/** Timers fire when the test says so. */
function acknowledging(outcomes: PublishResult['kind'][] = []) {
  let timers: (() => void)[] = []
  const said: number[][] = []
  const bus = {
    subjects: new Subjects(),
    async publish({ subject, data }: PublishMessage): Promise<PublishResult> {
      expect(subject).toBe('acknowledged.alice')
      const kind = outcomes.shift() ?? 'stored'
      if (kind !== 'stored') return { kind: 'unknown', description: 'lost' }
      const decoded = decode(data ?? new Uint8Array())
      said.push(sequencesIn(decoded.ok && decoded.value, Number.MAX_SAFE_INTEGER))
      return { kind, sequence: 1 }
    },
  }
  const clock = {
    now: () => 0,
    monotonic: () => 0,
    after(_ms: number, fn: () => void): Disposable {
      timers.push(fn)
      return {
        [Symbol.dispose]: () => {
          timers = timers.filter((one) => one !== fn)
        },
      }
    },
  }
  const deps: Deps = { bus: bus as unknown as Bus, clock, random: { bytes: (n) => new Uint8Array(n) } }
  const second = async () => {
    for (const fn of timers.splice(0)) fn()
    await new Promise((later) => setImmediate(later))
  }
  return { made: new AckPublisher(deps, 'alice'), said, second, timers: () => timers.length }
}

it('says what was delivered within a second in one message', async () => {
  const { made, said, second, timers } = acknowledging()
  for (const sequence of [9, 3, 12, 3]) made.note(sequence)
  expect(timers()).toBe(1)
  expect(said).toEqual([])
  await second()
  made.note(20)
  await second()
  expect(said).toEqual([[3, 9, 12], [20]])
  await second()
  expect([said.length, timers()]).toEqual([2, 0])
})

it('says again what was not stored, and the last when it ends', async () => {
  const { made, said, second } = acknowledging(['unknown'])
  made.note(5)
  await second()
  expect(said).toEqual([])
  made.note(7)
  await made[Symbol.asyncDispose]()
  expect(said).toEqual([[5, 7]])
})

it('says at once what is done while the agent closes, and gives up what cannot be said', async () => {
  const { made, said } = acknowledging(['stored', 'stored', 'unknown'])
  await made[Symbol.asyncDispose]()
  await Promise.all([made.acknowledge(5), made.acknowledge(6)])
  expect(said).toEqual([[5], [6]])
  await expect(made.acknowledge(7)).rejects.toThrow('closed')
})
