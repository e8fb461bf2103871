import { keyText } from '@passover/schemas'
import { expect, it } from 'vitest'
import { DeferredDeletions, fairShare } from './deferred-deletions.js'
import type { DeferredPass, DeferredSegment } from './deletion-state.js'

const MOST = 10
const pass = (n: number, why: DeferredPass['why'] = 'delivery'): DeferredPass => ({
  key: { originator: 'away', subagent: 'audit', id: `waits-${n}` },
  why,
  due: 1,
})

/** The bucket, and what was read from it segment by segment. */
function bucket() {
  const stored = new Map<number, DeferredSegment>()
  const read: number[] = []
  const state = {
    async *deferred() {
      yield* stored
    },
    deferredIn: async (k: number) => {
      read.push(k)
      return stored.get(k)
    },
    defer: async (k: number, waiting: DeferredSegment) => {
      if (waiting.passes.length + waiting.advisories.length > 0) stored.set(k, waiting)
      else stored.delete(k)
    },
  }
  return { stored, read, left: new DeferredDeletions(state, MOST, MOST) }
}

async function looked(deferred: DeferredDeletions): Promise<number[]> {
  const found: number[] = []
  for await (const { k } of deferred.due()) found.push(k)
  return found
}

// Fails where all is kept: an agent that is away for a day would have every return of that day in memory.
it('keeps as much as there is room, and reads the other segments by turns, until each was looked at', async () => {
  const { left: deferred, read } = bucket()
  for (let k = 0; k < 80; k++) await deferred.put(k, { passes: [pass(k)], advisories: [] })
  expect(deferred.size).toBe(80)
  const times = new Map<number, number>()
  for (let look = 0; look < 3; look++) for (const k of await looked(deferred)) times.set(k, (times.get(k) ?? 0) + 1)
  expect([times.size, times.get(0), times.get(79), Math.min(...times.values())]).toEqual([80, 3, 1, 1])
  expect([read.length, new Set(read).size, Math.min(...read)]).toEqual([70, 70, MOST])
  // And from the newest again.
  expect((await looked(deferred)).slice(0, 1)).toEqual([79])
})

// Fails where all count together: an agent with many dead letters would have those of all others deleted.
it('keeps the newest dead letters of each originator, wherever they stand, and takes none of one that has few', async () => {
  const { left: deferred } = bucket()
  const letters = (from: number, count: number, originator = 'away') =>
    Array.from({ length: count }, (_, n) => ({ ...pass(from + n, 'dead_letter'), key: { ...pass(from + n).key, originator } }))
  await deferred.put(1, { passes: [...letters(100, 3, 'bob'), ...letters(110, 2)], advisories: [] })
  await deferred.put(2, { passes: letters(200, 20), advisories: [] })
  await deferred.put(3, { passes: [...letters(300, 2), pass(1)], advisories: [{ advisory: 9, names: 8 }] })
  const found: [number, string[]][] = []
  for await (const { k, crowded } of deferred.due()) found.push([k, [...crowded].map(({ key }) => key.id)])
  // Ten fit: bob's three, and seven of the other one, two of them in the newest segment.
  const older = letters(200, 15).map(({ key }) => key.id)
  expect(found).toEqual([
    [3, []],
    [2, older.toReversed()],
    [1, ['waits-111', 'waits-110']],
  ])
})

it('shares what there is equally, and what some do not need among the others', () => {
  expect([fairShare([3, 20, 30], 23), fairShare([5, 5], 10), fairShare([], 10), fairShare([1, 2, 4], 5)]).toEqual([
    10,
    Number.POSITIVE_INFINITY,
    Number.POSITIVE_INFINITY,
    2,
  ])
})

it('forgets what goes, and has room for more then; another process finds all of it', async () => {
  const { left: deferred, stored } = bucket()
  const many = { passes: Array.from({ length: MOST }, (_, n) => pass(n)), advisories: [] }
  await deferred.put(1, many)
  await deferred.put(2, { passes: [pass(50), pass(51)], advisories: [] })
  await deferred.removePasses(new Set(many.passes.slice(1).map(({ key }) => keyText(key))))
  expect([deferred.size, stored.get(1)?.passes.length]).toEqual([3, 1])
  await deferred.put(1, { passes: [], advisories: [] })
  expect([deferred.size, [...stored.keys()]]).toEqual([2, [2]])
  await deferred.load()
  expect([deferred.size, await looked(deferred)]).toEqual([2, [2]])
})
