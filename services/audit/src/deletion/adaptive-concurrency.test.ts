import { expect, it } from 'vitest'
import { AdaptiveConcurrency } from './adaptive-concurrency.js'

function widthAt(ms: number): number {
  const concurrency = new AdaptiveConcurrency()
  for (let n = 0; n < 1_000; n++) concurrency.recordLatency(ms)
  return concurrency.concurrency
}

it('as many deletions are under way as make forty thousand a second, within bounds', () => {
  expect(new AdaptiveConcurrency().concurrency).toBe(128)
  expect(widthAt(10)).toBe(400)
  expect(widthAt(0.1)).toBe(128)
  expect(widthAt(500)).toBe(1_536)
})
