import { encode } from '@msgpack/msgpack'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { findFieldBytes } from './find-field.js'

const leaf = fc.oneof(
  fc.constant(null),
  fc.boolean(),
  fc.integer(),
  fc.maxSafeInteger(),
  fc.double({ noNaN: true }),
  fc.string({ maxLength: 400 }),
  fc.uint8Array({ maxLength: 400 }),
  fc.array(fc.integer(), { maxLength: 40 }),
)
const value = fc.letrec((tie) => ({
  node: fc.oneof(
    { depthSize: 'small' },
    leaf,
    fc.array(tie('node'), { maxLength: 5 }),
    fc.dictionary(fc.string({ maxLength: 40 }), tie('node'), { maxKeys: 20 }),
  ),
})).node

describe('findFieldBytes', () => {
  it('cuts out exactly the bytes of a value, whatever stands before and after it', () => {
    fc.assert(
      fc.property(value, value, value, (before, wanted, after) => {
        const bytes = encode({ v: before, control: wanted, parts: after })
        expect(Buffer.from(findFieldBytes(bytes, 'control') ?? [])).toEqual(Buffer.from(encode(wanted)))
      }),
    )
  })

  it('knows long strings, bytes, lists and maps', () => {
    const long = {
      text: 'ä'.repeat(70_000),
      bytes: new Uint8Array(70_000),
      list: Array(70_000).fill(1),
      map: Object.fromEntries(Array.from({ length: 70_000 }, (_, n) => [`k${n}`, n])),
    }
    expect(Buffer.from(findFieldBytes(encode({ ...long, control: 7 }), 'control') ?? [])).toEqual(Buffer.from([7]))
  })

  it('finds nothing where there is nothing, and never throws at bytes that are no map', () => {
    expect(findFieldBytes(encode({ a: 1 }), 'control')).toBeUndefined()
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
        const found = findFieldBytes(bytes, 'c')
        expect(found === undefined || found instanceof Uint8Array).toBe(true)
      }),
      { numRuns: 2000 },
    )
  })

  it('a value that is cut off is none', () => {
    const bytes = encode({ control: 'a long enough text' })
    for (let n = 0; n < bytes.length; n++) expect(findFieldBytes(bytes.subarray(0, n), 'control')).toBeUndefined()
  })
})
