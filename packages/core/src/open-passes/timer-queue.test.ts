import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type Timed, TimerQueue } from './timer-queue.js'

interface Item extends Timed {
  name: number
}

describe('Timers', () => {
  it('gives out in order of time, then of number', () => {
    const timers = new TimerQueue<Item>()
    const items = [0, 1, 2, 3].map((name): Item => ({ name }))
    const [a, b, c, d] = items as [Item, Item, Item, Item]
    timers.set(a, 30, 1)
    timers.set(b, 10, 9)
    timers.set(c, 10, 2)
    timers.set(d, 20, 3)
    timers.set(d, 20, 3)
    timers.set(a, 5, 1)
    timers.drop(d)
    timers.drop(d)
    expect(timers.nextAt()).toBe(5)
    expect([timers.take(9), timers.take(9), timers.take(10), timers.take(10), timers.take(99)]).toEqual([a, undefined, c, b, undefined])
    expect(timers.nextAt()).toBeUndefined()
  })

  it('does what a sorted list does, however much is moved and dropped', () => {
    const op = fc.record({ item: fc.nat(9), at: fc.nat(50), drop: fc.boolean(), take: fc.nat(9).map((n) => n === 0) })
    fc.assert(
      fc.property(fc.array(op, { maxLength: 100 }), (list) => {
        const timers = new TimerQueue<Item>()
        const items = Array.from({ length: 10 }, (_, name): Item => ({ name }))
        const naive = new Map<Item, number>()
        for (const { item: i, at, drop, take } of list) {
          const item = items[i] as Item
          if (take) {
            const [first] = [...naive].filter(([, due]) => due <= at).sort((x, y) => x[1] - y[1] || x[0].name - y[0].name)
            expect(timers.take(at)).toBe(first?.[0])
            if (first) naive.delete(first[0])
          } else if (drop) {
            timers.drop(item)
            naive.delete(item)
          } else {
            timers.set(item, at, i)
            naive.set(item, at)
          }
          expect(timers.nextAt()).toBe(naive.size === 0 ? undefined : Math.min(...naive.values()))
        }
      }),
    )
  })

  it('keeps its order when it sweeps out what was dropped', () => {
    const timers = new TimerQueue<Item>()
    const items = Array.from({ length: 5_000 }, (_, name): Item => ({ name }))
    for (const item of items) timers.set(item, (item.name * 7_919) % 5_000, item.name)
    for (const item of items) if (item.name % 10 !== 0) timers.drop(item)
    const given: number[] = []
    for (let item = timers.take(9_999); item; item = timers.take(9_999)) given.push((item.name * 7_919) % 5_000)
    expect(given).toHaveLength(500)
    expect(given).toEqual([...given].sort((a, b) => a - b))
  })
})
