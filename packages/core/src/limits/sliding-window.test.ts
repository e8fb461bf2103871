import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { PairCounters, SlidingWindowCounter } from './sliding-window.js'

const T0 = 1_800_000_000_000

describe('a minute', () => {
  it('counts what began in the last 60 s as a naive count does, to the second', () => {
    const waits = fc.array(fc.record({ wait: fc.integer({ min: 0, max: 40_000 }), add: fc.boolean() }), { maxLength: 80 })
    fc.assert(
      fc.property(waits, fc.integer({ min: 1, max: 9 }), (steps, limit) => {
        const minute = new SlidingWindowCounter()
        const times: number[] = []
        let now = T0
        const naive = (at: number) => times.filter((time) => Math.floor(at / 1_000) - Math.floor(time / 1_000) <= 60).length
        for (const { wait, add } of steps) {
          now += wait
          if (add) times.push(now)
          if (add) minute.add(now)
          expect(minute.count(now)).toBe(naive(now))
          const frees = minute.freesIn(limit, now)
          expect(naive(now + frees)).toBeLessThan(limit)
          if (frees > 0) expect(naive(now + frees - 1)).toBeGreaterThanOrEqual(limit)
          const again = new SlidingWindowCounter().unpack(minute.pack())
          expect(again.count(now)).toBe(minute.count(now))
          expect(again.freesIn(limit, now)).toBe(frees)
        }
      }),
    )
  })

  it('bears a clock that steps back, and never counts what is older than a minute', () => {
    const minute = new SlidingWindowCounter()
    minute.add(T0)
    minute.add(T0 - 30_000)
    minute.add(T0 - 70_000)
    expect(minute.count(T0 - 5_000)).toBe(2)
    expect(minute.count(T0 + 31_000)).toBe(1)
    expect(minute.count(T0 + 61_000)).toBe(0)
  })
})

describe('tallies', () => {
  const key = (originator: string, subagent: string, id = 'x') => ({ originator, subagent, id })

  it('count what is open and what began, by pair and by subagent, like a naive count', () => {
    const op = fc.record({
      from: fc.constantFrom('a', 'b'),
      to: fc.constantFrom('x', 'y'),
      wait: fc.nat(20_000),
      what: fc.constantFrom('begin', 'hold', 'dispatch', 'end'),
    })
    fc.assert(
      fc.property(fc.array(op, { maxLength: 60 }), (ops) => {
        const tallies = new PairCounters()
        const open: { from: string; to: string; held: boolean }[] = []
        const begun: { from: string; to: string; time: number }[] = []
        let now = T0
        for (const { from, to, wait, what } of ops) {
          now += wait
          const first = open.find((one) => one.from === from && one.to === to)
          if (what === 'end' && first) {
            open.splice(open.indexOf(first), 1)
            tallies.ended(key(from, to), first.held)
          }
          if (what === 'dispatch' && first?.held) {
            first.held = false
            tallies.dispatched(key(from, to))
          }
          if (what === 'begin' || what === 'hold') {
            open.push({ from, to, held: what === 'hold' })
            begun.push({ from, to, time: now })
            tallies.begun(key(from, to), now, what === 'hold')
          }
          const fresh = begun.filter(({ time }) => Math.floor(now / 1_000) - Math.floor(time / 1_000) <= 60)
          const pair = (one: { from: string; to: string }) => one.from === from && one.to === to
          const all = (one: { to: string }) => one.to === to
          expect(tallies.of('pair', key(from, to))?.active ?? 0).toBe(open.filter(pair).length)
          expect(tallies.of('subagent', key(from, to))?.active ?? 0).toBe(open.filter(all).length)
          expect(tallies.of('pair', key(from, to))?.held ?? 0).toBe(open.filter((one) => pair(one) && one.held).length)
          expect(tallies.of('subagent', key(from, to))?.held ?? 0).toBe(open.filter((one) => all(one) && one.held).length)
          expect(tallies.of('pair', key(from, to))?.minute.count(now) ?? 0).toBe(fresh.filter(pair).length)
          expect(tallies.of('subagent', key(from, to))?.minute.count(now) ?? 0).toBe(fresh.filter(all).length)
        }
      }),
    )
  })

  it('forget pairs that fell silent, and keep those with something open', () => {
    const tallies = new PairCounters()
    for (let n = 0; n < 1_000; n++) {
      tallies.begun(key(`from-${n}`, 'x'), T0, false)
      if (n > 0) tallies.ended(key(`from-${n}`, 'x'), false)
    }
    expect(tallies.size).toBe(1_000)
    tallies.begun(key('late', 'y'), T0 + 200_000, false)
    expect(tallies.size).toBe(2)
  })
})
