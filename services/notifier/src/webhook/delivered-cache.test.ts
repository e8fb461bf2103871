import { expect, it } from 'vitest'
import { DeliveredCache } from './delivered-cache.js'

it('remembers what was taken of a delivery until it is done, and of abandoned ones only the youngest', () => {
  const taken = new DeliveredCache(3)
  for (let sequence = 1; sequence <= 3; sequence++) taken.add(sequence, 'a')
  taken.add(1, 'b')
  expect([taken.has(1, 'a'), taken.has(1, 'b'), taken.has(1, 'c')]).toEqual([true, true, false])
  for (let sequence = 4; sequence <= 1_000; sequence++) {
    taken.add(sequence, 'a')
    taken.add(1, 'b')
  }
  expect(taken.size).toBe(3)
  expect([taken.has(1, 'a'), taken.has(2, 'a'), taken.has(1_000, 'a')]).toEqual([true, false, true])
  taken.delete(1)
  expect(taken.has(1, 'a')).toBe(false)
})
