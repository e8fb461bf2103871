import { expect, it } from 'vitest'
import { changesBetween } from './file-fingerprint.js'

it('lists added, removed and changed files in order', () => {
  const before = new Map([
    ['a', '1'],
    ['b', '1'],
    ['c', '1'],
  ])
  const after = new Map([
    ['b', '2'],
    ['c', '1'],
    ['0', '1'],
  ])
  expect(changesBetween(before, after)).toEqual(['0', 'a', 'b'])
  expect(changesBetween(before, before)).toEqual([])
})
