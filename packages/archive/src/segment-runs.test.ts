import { expect, it } from 'vitest'
import type { ManifestEntry } from './manifest.js'
import { runsOf } from './segment-runs.js'

const entry = (k: number, [first_time, last_time]: [number, number], count = 10): ManifestEntry =>
  ({ k, count, first_time, last_time, chain_before: `c${k}`, chain_after: `c${k + 1}` }) as ManifestEntry

it('tells neighbours together, with the times of what is in them', () => {
  expect(runsOf([])).toEqual([])
  const empty = entry(4, [0, 0], 0)
  expect(runsOf([entry(2, [20, 29]), entry(3, [30, 39]), empty])).toEqual([
    { from: 2, to: 4, entries: 20, first_time: 20, last_time: 39, chain_before: 'c2', chain_after: 'c5' },
  ])
  expect(runsOf([empty, entry(5, [50, 59])])).toMatchObject([{ from: 4, to: 5, entries: 10, first_time: 50, last_time: 59 }])
  expect(runsOf([empty])).toMatchObject([{ entries: 0, first_time: 0, last_time: 0 }])
})

it('begins anew behind a gap, and where the chain does not go on', () => {
  const forked = { ...entry(3, [30, 39]), chain_before: 'other' }
  expect(runsOf([entry(2, [20, 29]), forked, entry(5, [50, 59])]).map(({ from, to }) => [from, to])).toEqual([
    [2, 2],
    [3, 3],
    [5, 5],
  ])
})
