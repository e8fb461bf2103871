import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ChurnMap } from './churn-map.js'

const step = fc.record({ what: fc.constantFrom('set', 'delete', 'take', 'clear'), key: fc.nat(12), value: fc.nat() })

describe('PassingMap', () => {
  it('is a map', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 100 }), (steps) => {
        const [passing, plain] = [new ChurnMap<number, { value: number }>(), new Map<number, { value: number }>()]
        for (const { what, key, value } of steps) {
          if (what === 'set') {
            passing.set(key, { value })
            plain.set(key, { value })
          } else if (what === 'delete') expect(passing.delete(key)).toBe(plain.delete(key))
          else if (what === 'take') {
            expect(passing.take(key)).toEqual(plain.get(key))
            plain.delete(key)
          } else {
            passing.clear()
            plain.clear()
          }
          expect([passing.get(key), passing.has(key), passing.size]).toEqual([plain.get(key), plain.has(key), plain.size])
        }
        expect([...passing]).toEqual([...plain])
        expect([...passing.values()]).toEqual([...plain.values()])
        expect([...passing.keys()]).toEqual([...plain.keys()])
        expect(passing.first()).toEqual([...plain.values()][0])
      }),
    )
  })

  it('may lose what comes later while it is gone through', () => {
    const passing = new ChurnMap<string, { n: number }>()
    for (const [n, key] of ['a', 'b', 'c'].entries()) passing.set(key, { n })
    const seen: number[] = []
    for (const [key, { n }] of passing) {
      seen.push(n)
      passing.delete(key === 'a' ? 'b' : key)
    }
    expect([seen, [...passing.keys()]]).toEqual([[0, 2], ['a']])
  })
})
