import { expect, it } from 'vitest'
import { Aging } from './aging.js'

const DAY_MS = 86_400_000
/** What time it is: all of them are old. */
const NOW = 100 * DAY_MS

/** Which of some old segments are looked at, where each answer in turn says how long is kept. */
async function lookedAt(kept: (number | undefined)[], segments = 4): Promise<number[]> {
  const entries = Array.from({ length: segments }, (_, k) => ({ k, count: 1, last_time: k, object: `${k}.frames`, index: `${k}.index` }))
  const looked: number[] = []
  const manifest = {
    all: async () => entries,
    newest: async () => entries.at(-1),
    // Another audit's: there is nothing to do.
    standing: async (k: number) => void looked.push(k),
  }
  const aging = new Aging({
    bus: { clockMeasured: true, now: () => NOW },
    clock: { monotonic: () => 0 },
    archive: { finder: { complete: true } },
    objects: { list: async () => [] },
    manifest,
    retention_days: () => (kept.length > 1 ? kept.shift() : kept[0]),
  } as never)
  await aging.look()
  expect(aging.trouble).toBeUndefined()
  return looked
}

it('hears before each segment that more is kept, or that nobody knows how much', async () => {
  expect(await lookedAt([7])).toEqual([0, 1, 2, 3])
  expect(await lookedAt([7, 7, 7, 90])).toEqual([0, 1])
  expect(await lookedAt([7, 7, undefined])).toEqual([0])
  expect(await lookedAt([undefined, 7])).toEqual([])
})
