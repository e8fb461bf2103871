import fc from 'fast-check'
import { expect, it } from 'vitest'
import { Revisions } from './revisions.js'

it('tells a gap while a write before a known one is not known, and none otherwise', () => {
  fc.assert(
    fc.property(fc.array(fc.record({ revision: fc.integer({ min: 1, max: 40 }), read: fc.boolean() })), (writes) => {
      const revisions = new Revisions()
      const known = new Set<number>()
      for (const { revision, read } of writes) {
        if (read) {
          revisions.reach(revision)
          for (let before = 1; before <= revision; before++) known.add(before)
        } else {
          revisions.see(revision)
          known.add(revision)
        }
        const newest = Math.max(...known)
        expect(revisions.gapBelow).toBe(known.size < newest ? newest : undefined)
        for (let one = 1; one <= 41; one++) expect(revisions.knows(one)).toBe(known.has(one))
      }
    }),
  )
})
