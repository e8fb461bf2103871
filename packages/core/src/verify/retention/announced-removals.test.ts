import { expect, it } from 'vitest'
import { differs } from './announced-removals.js'

const chains = { chain_before: 'a', chain_after: 'd' }

it('what lies within the earliest and the latest time of a run is of no other time, whichever of its segments holds these', () => {
  const run = { from: 2, to: 4, entries: 3, first_time: 20, last_time: 90, ...chains }
  const told = (k: number, [first, last]: [number, number]) =>
    differs({ k, first: 1, last: 2, count: 1, at: 100, times: { first, last }, ...chains }, run)
  // The clock of the server was set back after the first.
  expect([told(2, [50, 90]), told(3, [20, 30]), told(4, [40, 60])]).toEqual([undefined, undefined, undefined])
  // And within one.
  expect(told(3, [90, 20])).toBeUndefined()
  expect([told(3, [19, 30]), told(3, [20, 91])]).toEqual(['messages with different times', 'messages with different times'])
})
