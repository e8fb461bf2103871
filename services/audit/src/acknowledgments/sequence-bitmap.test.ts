import fc from 'fast-check'
import { expect, it } from 'vitest'
import { CHUNK_SIZE, chunkEntry, decodeChunk, emptyChunk, encodeChunk, hasBit, mergeChunks, setBit } from './sequence-bitmap.js'

const chunkOfAll = (places: Iterable<number>) => {
  const chunk = emptyChunk()
  for (const place of places) setBit(chunk, place)
  return chunk
}

it('an entry has exactly the bits that were set, few or many, in whatever order', () => {
  const few = fc.uniqueArray(fc.integer({ min: 0, max: CHUNK_SIZE - 1 }), { maxLength: 50 })
  const many = fc.integer({ min: 1, max: 5 }).map((step) => Array.from({ length: Math.floor(CHUNK_SIZE / step) }, (_, n) => n * step))
  fc.assert(
    fc.property(fc.oneof({ weight: 9, arbitrary: few }, { weight: 1, arbitrary: many }), (places) => {
      const entry = chunkEntry.parse(encodeChunk(chunkOfAll(places)))
      expect(encodeChunk(chunkOfAll([...places].reverse()))).toEqual(entry)
      const opened = decodeChunk(entry)
      expect(places.every((place) => hasBit(opened, place + 3 * CHUNK_SIZE))).toBe(true)
      expect(opened).toEqual(chunkOfAll(places))
    }),
    { numRuns: 60 },
  )
})

it('what two replicas know is in what they write together', () => {
  const both = mergeChunks(chunkOfAll([1, 9]), chunkOfAll([9, 70]))
  expect(both).toEqual(chunkOfAll([1, 9, 70]))
  expect(decodeChunk(undefined)).toEqual(emptyChunk())
})
