import { expect, it } from 'vitest'
import { growthOf, slopeOf } from './slope.js'

const line = (values: number[]) => values.map((y, n) => ({ x: n * 1_000, y }))

it('the slope is that of the line which is nearest to all samples', () => {
  expect(slopeOf(line([5, 7, 9]))).toBeCloseTo(0.002)
  expect(slopeOf(line([0, 10, 0, 10]))).toBeCloseTo(0.002)
  expect(slopeOf(line([9, 8, 7]))).toBeCloseTo(-0.001)
  expect([slopeOf([]), slopeOf(line([5])), slopeOf([5, 9].map((y) => ({ x: 1, y })))]).toEqual([0, 0, 0])
})

it('is told from the first sample to the last', () => {
  expect(growthOf(line([100, 110, 120]), 0)).toMatchObject({ slope: 0.01, mean: 110, grown: 20, flat: false })
  expect(growthOf([], 0)).toEqual({ slope: 0, mean: 0, grown: 0, flat: true })
})

it('is flat where it is less than a tenth, or less than what comes and goes', () => {
  expect(growthOf(line([100, 104, 109]), 0).flat).toBe(true)
  expect(growthOf(line([100, 106, 112]), 0).flat).toBe(false)
  expect(growthOf(line([100, 106, 112]), 16).flat).toBe(true)
  expect(growthOf(line([300, 200, 100]), 0).flat).toBe(true)
})

// Fails with the noise of MiB for everything: 16 messages more would be a stream that grows, where 20,000 come and go.
it('what is counted has a noise of its own', () => {
  const messages = line([12_000, 22_000, 7_000, 15_000, 14_000])
  expect(growthOf(messages, 16).flat).toBe(true)
  const rising = line([7_000, 9_000, 11_000])
  expect([growthOf(rising, 16).flat, growthOf(rising, 16_384).flat]).toEqual([false, true])
})
