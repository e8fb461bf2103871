import { expect, test } from 'vitest'
import { RecentlyEnded } from './recently-ended.js'

const key = (n: number) => ({ originator: 'alice', subagent: 'audit', id: `given-id-${n}` })

test('work that was stored before its pass was ended is known as ended, later work under the same id is not', () => {
  const recentlyEnded = new RecentlyEnded()
  expect(recentlyEnded.has(key(1), 5)).toBe(false)
  recentlyEnded.note(key(1), 8)
  expect([recentlyEnded.has(key(1), 5), recentlyEnded.has(key(1), 9), recentlyEnded.has(key(2), 5)]).toEqual([true, false, false])
})

test('the last ten thousand are known', () => {
  const recentlyEnded = new RecentlyEnded()
  for (let n = 1; n <= 10_001; n++) recentlyEnded.note(key(n), n + 1)
  recentlyEnded.note(key(2), 20_000)
  recentlyEnded.note(key(10_002), 20_001)
  expect([1, 2, 3, 4, 10_002].map((n) => recentlyEnded.has(key(n), n))).toEqual([false, true, false, true, true])
})
