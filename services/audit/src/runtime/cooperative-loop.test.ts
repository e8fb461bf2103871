import { expect, it } from 'vitest'
import { forEachCooperative } from './cooperative-loop.js'

it('lets others in every few ms, and leaves nothing out', async () => {
  const seen: number[] = []
  const turns: number[] = []
  let now = 0
  const clock = {
    monotonic: () => now,
    after: (_: number, fn: () => void) => {
      turns.push(seen.length)
      // Others take long.
      now += 150
      queueMicrotask(fn)
      return { [Symbol.dispose]: () => undefined }
    },
  }
  const items = Array.from({ length: 300 }, (_, n) => n)
  await forEachCooperative(items, clock, (n) => {
    seen.push(n)
    now += 0.05
  })
  expect([seen, turns]).toEqual([items, [96, 192, 288]])
})
