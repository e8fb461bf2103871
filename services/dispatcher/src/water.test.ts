import { expect, test } from 'vitest'
import { nextState } from './water.js'

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
