import fc from 'fast-check'
import { expect, it } from 'vitest'
import { findGaps } from './manifest.js'

it('gaps are what is missing between the first and the last', () => {
  const list = fc.uniqueArray(fc.nat(200), { maxLength: 60 }).map((ks) => ks.sort((a, b) => a - b))
  fc.assert(
    fc.property(list, (ks) => {
      const [first = 0, last = -1] = [ks[0], ks.at(-1)]
      const between = Array.from({ length: last - first + 1 }, (_, n) => first + n)
      expect(findGaps(ks.map((k) => ({ k })))).toEqual(between.filter((k) => !ks.includes(k)))
    }),
  )
})
