import { expect, it } from 'vitest'
import { OpenAddressingTable } from './hash-table.js'

// Fails with an Int32Array: a process that has written a thousand million records found none of the next ones again.
it('finds places beyond 32 bits, moved or not', () => {
  const hashed = { hash: 7, check: 9 }
  const table = new OpenAddressingTable(() => hashed)
  const [place, later] = [2 ** 31 + 5, 2 ** 33 + 6]
  table.add(hashed, place)
  expect(table.find(hashed)).toBe(place)
  table.move(place, later)
  expect(table.find(hashed)).toBe(later)
  table.remove(later)
  expect(table.find(hashed)).toBeUndefined()
})
