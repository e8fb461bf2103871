import { expect, test } from 'vitest'
import { RecentEntries, SeenNames } from './recent-entries.js'

test('Recent keeps the newest entries, at most twice as many as it promises', () => {
  const recent = new RecentEntries<number>(10)
  for (let n = 0; n < 100; n++) recent.set(`name ${n}`, n)
  const kept = Array.from({ length: 100 }, (_, n) => recent.get(`name ${n}`)).filter((n) => n !== undefined)
  expect(kept.slice(-10)).toEqual([90, 91, 92, 93, 94, 95, 96, 97, 98, 99])
  expect(kept.length).toBeLessThanOrEqual(20)
  recent.delete('name 99')
  expect(recent.get('name 99')).toBeUndefined()
})

test('Seen knows the last half million names, and forgets those before the last million', () => {
  const seen = new SeenNames()
  const many = 1_100_000
  for (let n = 0; n < many; n++) seen.add(`alice/audit/${n}`)
  seen.add(`alice/audit/${many - 1}`)
  expect(seen.has(`alice/audit/${many - 1}`)).toBe(true)
  expect(seen.has(`alice/audit/${many - 500_000}`)).toBe(true)
  expect(seen.has('alice/audit/0')).toBe(false)
  expect(seen.has('bob/audit/0')).toBe(false)
})
