import { expect, it } from 'vitest'
import { inTurns } from './in-turns.js'

it('lets others in every hundred or so, and leaves nothing out', async () => {
  const seen: number[] = []
  const turns: number[] = []
  const clock = {
    after: (_: number, fn: () => void) => {
      turns.push(seen.length)
      queueMicrotask(fn)
      return { [Symbol.dispose]: () => undefined }
    },
  }
  const items = Array.from({ length: 300 }, (_, n) => n)
  await inTurns(items, clock, (n) => void seen.push(n))
  expect([seen, turns]).toEqual([items, [128, 256]])
})
