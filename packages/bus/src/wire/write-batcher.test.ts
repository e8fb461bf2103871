import { expect, it } from 'vitest'
import { WriteBatcher } from './write-batcher.js'

/** Whether each of these writes, one every 3 ms, would have waited for more. */
function waits(...writes: number[]): boolean[] {
  const batcher = new WriteBatcher()
  return writes.map((messages, n) => {
    const waited = batcher.inNoHurry(3 * n)
    batcher.wrote(messages, 3 * n)
    return waited
  })
}

it('nobody waits where a dozen passes are in flight', () => {
  expect(waits(...Array.from({ length: 30 }, () => 7))).not.toContain(true)
})

it('after a write of many the next ones wait, as long as they have eight on average', () => {
  expect(waits(16, 13, 12, 3, 13, 12)).toEqual([false, true, true, true, true, true])
  const fewer = waits(16, ...Array.from({ length: 30 }, () => 7))
  expect(fewer.slice(1, 10)).not.toContain(false)
  expect(fewer.at(-1)).toBe(false)
})

// Fails where only the average tells: the seven writes after a burst, of whomever, would wait for 2 ms each.
it('after what came in one go at most two wait that bring little', () => {
  expect(waits(60, 1, 2, 1, 1, 2)).toEqual([false, true, true, false, false, false])
})

it('nobody waits after a pause', () => {
  const batcher = new WriteBatcher()
  batcher.wrote(60, 0)
  expect(batcher.inNoHurry(19)).toBe(true)
  expect(batcher.inNoHurry(20)).toBe(false)
})
