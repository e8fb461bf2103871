import { decode, encode } from '@passover/bus'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { pack } from './pack.js'
import { unpack } from './unpack.js'

const leaf = fc.oneof(
  fc.constant(null),
  fc.boolean(),
  fc.integer({ min: -32 }),
  fc.maxSafeInteger().map(Math.abs),
  fc.double({ noNaN: true }),
  fc.string({ unit: 'grapheme', maxLength: 300 }),
  fc.uint8Array({ maxLength: 300 }),
)
const value = fc.letrec((tie) => ({
  node: fc.oneof(
    { depthSize: 'small' },
    leaf,
    fc.array(tie('node'), { maxLength: 20 }),
    fc.dictionary(fc.string({ unit: 'grapheme', maxLength: 50 }), tie('node'), { maxKeys: 20, noNullPrototype: true }),
  ),
})).node

describe('unpack', () => {
  it('says what the bus says, or nothing', () => {
    let plain = 0
    fc.assert(
      fc.property(value, (given) => {
        const bytes = encode(given)
        const found = unpack(bytes)
        if (found === undefined) return
        plain++
        expect(decode(bytes, 'msgpack')).toEqual({ ok: true, type: 'msgpack', value: found })
      }),
    )
    expect(plain).toBeGreaterThan(50)
  })

  it('says nothing to any bytes that the bus refuses', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 60 }), (bytes) => {
        const found = unpack(bytes)
        if (found !== undefined) expect(decode(bytes, 'msgpack')).toMatchObject({ ok: true, value: found })
      }),
      { numRuns: 2_000 },
    )
    const whole = encode({ reason: 'r', list: [1, 2, 'x'.repeat(40)], time: 1_800_000_000_000 })
    expect(unpack(whole)).toEqual({ reason: 'r', list: [1, 2, 'x'.repeat(40)], time: 1_800_000_000_000 })
    for (let end = 0; end < whole.length; end++) expect(unpack(whole.subarray(0, end))).toBeUndefined()
    expect(unpack(Uint8Array.from([...whole, 0]))).toBeUndefined()
    expect(unpack(Uint8Array.from([0xdd, 0xff, 0xff, 0xff, 0xff]))).toBeUndefined()
    expect(unpack(Uint8Array.from([0x81, 0xa9, ...Buffer.from('__proto__'), 0x01]))).toBeUndefined()
    expect(unpack(new Uint8Array(100).fill(0x91))).toBeUndefined()
  })
})

describe('pack', () => {
  it("writes the bus's bytes", () => {
    fc.assert(
      fc.property(value, (given) => {
        expect(Buffer.from(pack({ given, absent: undefined })).equals(encode({ given, absent: undefined }))).toBe(true)
      }),
    )
    const large = { text: 'ü'.repeat(60_000), many: Array.from({ length: 20_000 }, (_, i) => i) }
    expect(Buffer.from(pack(large)).equals(encode(large))).toBe(true)
    const after = { text: 'short', list: [1, 300, 70_000, 5_000_000_000], off: false }
    expect(Buffer.from(pack(after)).equals(encode(after))).toBe(true)
  })
})
