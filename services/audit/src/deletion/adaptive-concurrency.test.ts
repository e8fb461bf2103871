import { expect, it } from 'vitest'
import { DeletionPace } from './adaptive-concurrency.js'

function widthAt(ms: number): number {
  const pace = new DeletionPace()
  for (let n = 0; n < 1_000; n++) pace.took(ms)
  return pace.width
}

it('as many deletions are under way as make forty thousand a second, within bounds', () => {
  expect(new DeletionPace().width).toBe(128)
  expect(widthAt(10)).toBe(400)
  expect(widthAt(0.1)).toBe(128)
  expect(widthAt(500)).toBe(1_536)
})
