import { Decoder, Encoder, ExtData } from '@msgpack/msgpack'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { intern, interning } from './interned-values.js'
import { unpack } from './msgpack-decoder.js'
import { pack } from './msgpack-encoder.js'

/** The general codec, as the bus has it. */
const encoder = new Encoder({ ignoreUndefined: true, extensionCodec: interning })
const decoder = new Decoder({ extensionCodec: interning })
const encode = (given: unknown) => encoder.encode(given)

const shared = [{ base: 1 }, { list: ['x'.repeat(300)], on: true }, {}].map((one) => intern(one))
const leaf = fc.oneof(
  fc.constantFrom(...shared),
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

describe('packed bodies', () => {
  it('share no bytes, small and large', () => {
    const values = Array.from({ length: 200 }, (_, n) => ({ text: String(n % 10).repeat(n * 20) }))
    const bodies = values.map((one) => pack(one))
    expect(bodies.map((body) => body && unpack(body))).toEqual(values)
  })
})

describe('unpack', () => {
  it('gives every name as it is, whichever of them meet in one place of what it remembers', () => {
    const bodies = Array.from({ length: 4_000 }, (_, n) => ({ session_id: n, [`name_${n % 3_000}`]: 1, context_bytes: n }))
    const packed = bodies.map((one) => encode(one))
    expect(packed.map((bytes) => unpack(bytes))).toEqual(bodies)
  })

  it('says what the general decoder says, or nothing', () => {
    let plain = 0
    fc.assert(
      fc.property(value, (given) => {
        const bytes = encode(given)
        const found = unpack(bytes)
        if (found === undefined) return
        plain++
        expect(decoder.decode(bytes)).toEqual(found)
      }),
    )
    expect(plain).toBeGreaterThan(50)
  })

  it('says nothing to any bytes that the general decoder refuses', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 60 }), (bytes) => {
        const found = unpack(bytes)
        if (found !== undefined) expect(decoder.decode(bytes)).toEqual(found)
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
  it("writes the general encoder's bytes, or none", () => {
    let plain = 0
    const agrees = (given: unknown) => {
      const packed = pack(given)
      if (packed) expect(Buffer.from(packed).equals(encode(given))).toBe(true)
      return packed !== undefined
    }
    fc.assert(
      fc.property(value, (given) => {
        if (agrees({ given, absent: undefined })) plain++
      }),
    )
    expect(plain).toBeGreaterThan(30)
    expect(agrees({ text: 'ü'.repeat(60_000), many: Array.from({ length: 20_000 }, (_, i) => i) })).toBe(false)
    expect(agrees({ text: 'short', list: [1, 300, 70_000, 5_000_000_000], off: false })).toBe(true)
    expect(agrees({ bytes: [0, 255, 256, 60_000].map((length) => new Uint8Array(length)) })).toBe(true)
    expect(agrees({ ['n'.repeat(31)]: 1, ['n'.repeat(255)]: 2, ü: 3 })).toBe(true)
    expect([agrees(new Date(0)), agrees([undefined]), agrees(0.5), agrees(-1), agrees(1n)]).toEqual([false, false, false, false, false])
  })
})

describe('interned values', () => {
  it('inside hostile bytes are nothing, never a throw', () => {
    const whole = new Encoder()
    for (const inside of [new Uint8Array([0xc1]), new Uint8Array(0), new Uint8Array(100).fill(0x91)]) {
      expect(unpack(whole.encode(new ExtData(1, inside)))).toBeUndefined()
    }
    expect(unpack(whole.encode(new ExtData(9, new Uint8Array([1]))))).toBeUndefined()
    expect(unpack(whole.encode(new ExtData(1, encode({ a: 1 }))).subarray(0, 4))).toBeUndefined()
  })

  it('are plain where they are nested too deep to be read unseen', () => {
    let deep: unknown = 1
    for (let n = 0; n < 30; n++) deep = { deep }
    const sent = encode({ deep: intern(deep as object) })
    expect(sent).toEqual(new Encoder().encode({ deep }))
  })
})
