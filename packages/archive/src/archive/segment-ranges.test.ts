import { expect, it } from 'vitest'
import type { ManifestEntry } from './manifest.js'
import { segmentRanges } from './segment-ranges.js'

const entry = (k: number, [first_time, last_time]: [number, number], count = 10): ManifestEntry =>
  ({ k, count, first_time, last_time, chain_before: `c${k}`, chain_after: `c${k + 1}` }) as ManifestEntry

it('tells neighbours together, with the times of what is in them', () => {
  expect(segmentRanges([])).toEqual([])
  const empty = entry(4, [0, 0], 0)
  expect(segmentRanges([entry(2, [20, 29]), entry(3, [30, 39]), empty])).toEqual([
    { from: 2, to: 4, entries: 20, first_time: 20, last_time: 39, chain_before: 'c2', chain_after: 'c5' },
  ])
  expect(segmentRanges([empty, entry(5, [50, 59])])).toMatchObject([{ from: 4, to: 5, entries: 10, first_time: 50, last_time: 59 }])
  expect(segmentRanges([empty])).toMatchObject([{ entries: 0, first_time: 0, last_time: 0 }])
})

// Fails where the first one's first and the last one's last are taken: verify then says of what lies outside that it was of other times.
it('has the earliest and the latest times, also where the clock of the server was set back', () => {
  const all = [entry(2, [50, 90]), entry(3, [20, 30]), entry(4, [0, 0], 0), entry(5, [40, 60])]
  expect(segmentRanges(all)).toMatchObject([{ from: 2, to: 5, first_time: 20, last_time: 90 }])
})

it('begins anew behind a gap, and where the chain does not go on', () => {
  const forked = { ...entry(3, [30, 39]), chain_before: 'other' }
  expect(segmentRanges([entry(2, [20, 29]), forked, entry(5, [50, 59])]).map(({ from, to }) => [from, to])).toEqual([
    [2, 2],
    [3, 3],
    [5, 5],
  ])
})
