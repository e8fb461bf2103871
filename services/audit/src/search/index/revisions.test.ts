import fc from 'fast-check'
import { expect, it } from 'vitest'
import { KnownRevisions } from './revisions.js'

it('has reached the last write before the first that is not known', () => {
  fc.assert(
    fc.property(fc.array(fc.record({ revision: fc.integer({ min: 1, max: 40 }), read: fc.boolean() })), (writes) => {
      const revisions = new KnownRevisions()
      const known = new Set<number>()
      for (const { revision, read } of writes) {
        if (read) {
          revisions.reach(revision)
          for (let before = 1; before <= revision; before++) known.add(before)
        } else {
          revisions.see(revision)
          known.add(revision)
        }
        let before = 0
        while (known.has(before + 1)) before++
        expect(revisions.reached).toBe(before)
        for (let one = 1; one <= 41; one++) expect(revisions.knows(one)).toBe(known.has(one))
      }
    }),
  )
})
