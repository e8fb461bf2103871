import { expect, test } from 'vitest'
import { lookAfter, nextState } from './water.js'

test.each([
  ['open', 0, 'open'],
  ['open', 0.89, 'open'],
  ['open', 0.9, 'closed'],
  ['closed', 1, 'closed'],
  ['closed', 0.85, 'closed'],
  ['closed', 0.79, 'open'],
] as const)('%s at %d becomes %s', (requests, used, expected) => {
  expect(nextState(requests, used)).toBe(expected)
})

test('a stream that fills up is looked at more often', () => {
  expect([0, 0.69, 0.7, 0.95].map((used) => lookAfter(used, 2_000))).toEqual([2_000, 2_000, 250, 250])
})
