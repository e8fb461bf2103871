import type { PassKey } from '@passover/schemas'
import { pino } from 'pino'
import { expect, it, vi } from 'vitest'
import type { PassMemory } from '../pass/pass-memory.js'
import { DeliveryDeadlines, type DeliveryDeadlinesDeps } from './delivery-deadlines.js'

const DUE_MS = 86_400_000

/** What was looked up in the index of acknowledged returns, and of whom the stream was read again. */
function world(most: number) {
  const looked: string[] = []
  const scanned: string[][] = []
  const reader = { caughtUp: Promise.resolve(), closed: new Promise(() => undefined), [Symbol.asyncDispose]: async () => undefined }
  const deps = {
    bus: {
      bounds: async () => ({ first: 1, last: 1 }),
      subjects: { allReturns: (name: string) => name },
      follow: async ({ filters }: { filters: string[] }) => {
        scanned.push(filters)
        return reader
      },
    },
    agents: new Map(['mallory', 'bob'].map((name) => [name, { name, durable_returns: { from: 1 } }])),
    index: { has: async (originator: string, sequence: number) => looked.push(`${originator} ${sequence}`) > 0 },
    untilRead: async () => undefined,
    log: pino({ level: 'silent' }),
    clock: { now: () => 0 },
  } as unknown as DeliveryDeadlinesDeps
  const undelivered = new DeliveryDeadlines(deps, most)
  const note = (originator: string, sequence: number, time = 0) =>
    undelivered.note({
      key: { originator, subagent: 'audit', id: `pass-${sequence}` } as PassKey,
      journal: { state: 'done', return: { sequence, time } },
      noted: [],
      step: () => undefined,
    } as unknown as PassMemory)
  return { undelivered, note, looked, scanned }
}

/** Fails where the first to come take all the room: no E022 would be recorded of the others' returns. */
it('waits for the returns of each originator, however many one of them leaves unacknowledged, and looks for the rest when there is room', async () => {
  const { undelivered, note, looked, scanned } = world(8)
  for (let sequence = 1; sequence <= 20; sequence++) note('mallory', sequence)
  for (let sequence = 21; sequence <= 23; sequence++) note('bob', sequence)
  undelivered.sweep(0)
  expect([undelivered.size, scanned]).toEqual([expect.any(Number), []])
  undelivered.sweep(DUE_MS)
  await expect.poll(() => undelivered.size).toBe(0)
  expect(looked).toEqual(expect.arrayContaining(['bob 21', 'bob 22', 'bob 23', 'mallory 1']))
  expect(looked.length).toBeLessThanOrEqual(8)
  undelivered.sweep(DUE_MS)
  await expect.poll(() => scanned).toEqual([['mallory']])
})

it('records what is late in turns of originators', () => {
  const { undelivered, note, looked } = world(1_000)
  for (let sequence = 1; sequence <= 900; sequence++) note('mallory', sequence)
  note('bob', 901)
  undelivered.sweep(DUE_MS)
  return expect.poll(() => looked.slice(0, 65)).toContain('bob 901')
})

// Fails where a sweep walks all that wait: 200,000 of them may, most for days.
it('looks only at what is due, however many wait', async () => {
  const { undelivered, note, looked } = world(20_000)
  for (let sequence = 1; sequence <= 10_000; sequence++) note('mallory', sequence, sequence)
  const iterate = Map.prototype[Symbol.iterator]
  vi.spyOn(Map.prototype, Symbol.iterator).mockImplementation(function (this: Map<unknown, unknown>) {
    if (this.size > 1_000) throw new Error('walked')
    return iterate.call(this)
  })
  undelivered.sweep(DUE_MS + 3)
  await expect.poll(() => undelivered.size).toBe(9_997)
  undelivered.acknowledged('mallory', [4])
  undelivered.sweep(DUE_MS + 5)
  await expect.poll(() => undelivered.size).toBe(9_995)
  expect(looked).toEqual(['mallory 1', 'mallory 2', 'mallory 3', 'mallory 5'])
})
