import { expect, it } from 'vitest'
import { DeliveredCache } from './delivered-cache.js'

it('remembers what was taken of a delivery until it is done, and of abandoned ones only the youngest', () => {
  const delivered = new DeliveredCache(3)
  for (let sequence = 1; sequence <= 3; sequence++) delivered.add(sequence, 'a')
  delivered.add(1, 'b')
  expect([delivered.has(1, 'a'), delivered.has(1, 'b'), delivered.has(1, 'c')]).toEqual([true, true, false])
  for (let sequence = 4; sequence <= 1_000; sequence++) {
    delivered.add(sequence, 'a')
    delivered.add(1, 'b')
  }
  expect(delivered.size).toBe(3)
  expect([delivered.has(1, 'a'), delivered.has(2, 'a'), delivered.has(1_000, 'a')]).toEqual([true, false, true])
  delivered.delete(1)
  expect(delivered.has(1, 'a')).toBe(false)
})
