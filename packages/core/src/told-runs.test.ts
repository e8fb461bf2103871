import { expect, it } from 'vitest'
import { ToldRuns } from './told-runs.js'

const run = (from: number, to: number, archive = 'a') => ({
  from,
  to,
  chain_before: `${archive}${from}`,
  chain_after: `${archive}${to + 1}`,
})

it('takes what goes on where the last ended for one run; the last that tells of a segment counts', () => {
  const told = new ToldRuns()
  expect(told.of(0)).toBeUndefined()
  for (const one of [run(2, 3), run(4, 4), run(7, 7)]) told.add(one)
  expect([1, 2, 4, 5, 7, 8].map((k) => told.of(k))).toEqual([undefined, run(2, 4), run(2, 4), undefined, run(7, 7), undefined])
  // The archive was lost, and sealed anew.
  told.add(run(8, 8, 'b'))
  told.add(run(3, 7, 'b'))
  expect([2, 3, 7, 8].map((k) => told.of(k))).toEqual([run(2, 4), run(3, 7, 'b'), run(3, 7, 'b'), run(8, 8, 'b')])
})
