import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { PendingTable } from './pending-table.js'

describe('Slots', () => {
  it('gives each that waits a number of its own, and each back once', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(400), { maxLength: 2_000 }), (steps) => {
        const slots = new PendingTable<string>()
        const waiting = new Map<number, string>()
        const given = new Set<number>()
        for (const [at, step] of steps.entries()) {
          const known = [...waiting.keys()][step]
          if (known === undefined) {
            const number = slots.add(`item ${at}`)
            expect(given.has(number)).toBe(false)
            given.add(number)
            waiting.set(number, `item ${at}`)
          } else {
            expect(slots.take(known)).toBe(waiting.get(known))
            expect(slots.take(known)).toBeUndefined()
            waiting.delete(known)
          }
          expect(slots.size).toBe(waiting.size)
        }
        expect(new Map(slots.entries().map(({ number, item }) => [number, item]))).toEqual(waiting)
      }),
      { numRuns: 50 },
    )
  })

  it('has nothing under what is no number of its own', () => {
    const slots = new PendingTable<string>()
    const number = slots.add('one')
    for (const other of [number + 64, number + 1, -1, 0.5, Number.NaN, Number.POSITIVE_INFINITY]) expect(slots.take(other)).toBeUndefined()
    expect(slots.take(number)).toBe('one')
  })
})
