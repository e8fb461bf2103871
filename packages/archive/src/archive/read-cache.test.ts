import { describe, expect, it } from 'vitest'
import { ReadCache } from './read-cache.js'

/** Reads that end when they are told to. */
function reading(most = 2) {
  const shared = new ReadCache<{ n: number }>(most)
  const begun: { k: number; end: (n: number) => void; fail: (error: Error) => void }[] = []
  const of = (k: number, isKept?: (found: { n: number }) => boolean) =>
    shared.of(k, () => new Promise((end, fail) => begun.push({ k, end: (n) => end({ n }), fail })), isKept)
  return { shared, begun, of }
}

describe('shared reads', () => {
  it('are one for all that ask at once, and for those that come later', async () => {
    const { begun, of } = reading()
    const all = Promise.all([of(1), of(1), of(2), of(1)])
    expect(begun.map(({ k }) => k)).toEqual([1, 2])
    for (const { k, end } of begun) end(k)
    expect((await all).map(({ n }) => n)).toEqual([1, 1, 2, 1])
    expect(await of(1)).toEqual({ n: 1 })
    void of(3)
    // The one that was asked for longest ago has gone.
    void of(2)
    expect(begun.map(({ k }) => k)).toEqual([1, 2, 3, 2])
  })

  it('that failed, or are not to be kept, are made again', async () => {
    const { begun, of } = reading()
    const failed = of(1)
    begun[0]?.fail(new Error('not now'))
    await expect(failed).rejects.toThrow('not now')
    const empty = of(1, ({ n }) => n > 0)
    begun[1]?.end(0)
    expect(await empty).toEqual({ n: 0 })
    void of(1)
    expect(begun).toHaveLength(3)
  })

  it('that are forgotten while they are under way are made again, and what they end with takes nothing away', async () => {
    const { shared, begun, of } = reading()
    const before = of(1)
    shared.forget(1)
    const now = of(1)
    begun[0]?.fail(new Error('of before'))
    await expect(before).rejects.toThrow()
    begun[1]?.end(7)
    expect([await now, await of(1)]).toEqual([{ n: 7 }, { n: 7 }])
    expect(begun).toHaveLength(2)
  })
})
