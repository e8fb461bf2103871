import { Encoder, ExtData } from '@msgpack/msgpack'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { bodyType, CONTENT_TYPE, decode, encode } from './codec.js'
import { frameFault } from './frame-limits.js'

const json = fc.jsonValue({ maxDepth: 5 }).filter((value) => !JSON.stringify(value).includes('__proto__'))

describe('codec', () => {
  it('gives back what it encoded, in both forms', () => {
    fc.assert(
      fc.property(json, fc.constantFrom('msgpack' as const, 'json' as const), (value, type) => {
        const plain = JSON.parse(JSON.stringify(value))
        expect(decode(encode(plain, type), CONTENT_TYPE[type])).toEqual({ ok: true, value: plain, type })
      }),
    )
  })

  it('tells JSON from msgpack without a type', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), json, { noNullPrototype: true }), fc.constantFrom('', ' ', '\n\t '), (value, space) => {
        expect(bodyType(encode(value))).toBe('msgpack')
        expect(bodyType(Buffer.from(space + JSON.stringify(value)))).toBe('json')
      }),
    )
    expect(bodyType(new Uint8Array(0))).toBe('msgpack')
    expect(bodyType(Buffer.from('{}'), 'application/msgpack')).toBe('msgpack')
    expect(bodyType(new Uint8Array([1]), 'application/json; charset=utf-8')).toBe('json')
  })

  it('answers hostile bytes with an error, never an exception, and decodes the next body all the same', () => {
    const good = encode({ a: 1 })
    fc.assert(
      fc.property(
        fc.uint8Array({ maxLength: 200 }),
        fc.option(fc.constantFrom('json', 'msgpack', 'x'), { nil: undefined }),
        (bytes, type) => {
          expect(decode(bytes, type).ok).toBeTypeOf('boolean')
          expect(decode(good)).toEqual({ ok: true, value: { a: 1 }, type: 'msgpack' })
        },
      ),
    )
    for (const bytes of [
      [0xdd, 0xff, 0xff, 0xff, 0xff],
      [0xdf, 0xff, 0xff, 0xff, 0xff],
      [0xc6, 0xff, 0xff, 0xff, 0xff],
      [0xdb, 0xff, 0xff, 0xff, 0xff],
      [],
    ]) {
      expect(decode(new Uint8Array(bytes), 'msgpack')).toMatchObject({ ok: false })
    }
    expect(decode(Buffer.concat([good, good]))).toMatchObject({ ok: false })
    expect(decode(Buffer.from('{"a":'))).toMatchObject({ ok: false, error: { type: 'json' } })
    expect(decode(new Uint8Array([0x7b, 0xff, 0x7d]))).toMatchObject({ ok: false })
  })

  it('refuses what is nested too deep to walk', () => {
    expect(decode(new Uint8Array([...Array(100_000).fill(0x91), 0xc0]), 'msgpack')).toMatchObject({ ok: false })
    expect(decode(Buffer.from('['.repeat(5_000) + ']'.repeat(5_000)))).toMatchObject({ ok: false })
    expect(decode(Buffer.from('['.repeat(60) + ']'.repeat(60)))).toMatchObject({ ok: true })
  })

  it('reserves no memory for lengths that cannot be true', () => {
    const million = [0xdd, 0x00, 0x0f, 0x42, 0x40]
    const nested = Buffer.from(Array.from({ length: 2_000 }, () => million).flat())
    const shorter = Buffer.from(Array.from({ length: 60 }, () => [0xdd, 0x00, 0x03, 0x00, 0x00]).flat())
    const inside = Buffer.concat([Buffer.from([0xc8, 0x0f, 0xff, 0x01]), Buffer.alloc(4095, Buffer.from([0xdd, 0x01, 0x00, 0x00, 0x00]))])
    for (const bytes of [nested, Buffer.concat([shorter, Buffer.alloc(200_000, 0xc0)]), inside]) {
      const before = process.memoryUsage().heapUsed
      expect(decode(bytes, 'msgpack')).toMatchObject({ ok: false })
      expect(process.memoryUsage().heapUsed - before).toBeLessThan(32 * 1024 * 1024)
    }
  })

  it('checks the lengths of every kind of value', () => {
    const encoder = new Encoder()
    const values = [
      null,
      true,
      -1,
      300,
      70_000,
      -200,
      -70_000,
      2 ** 40,
      -(2 ** 40),
      1.5,
      '',
      'x'.repeat(40),
      'x'.repeat(300),
      'x'.repeat(70_000),
    ]
    const bytes = [1, 300, 70_000].map((length) => new Uint8Array(length))
    const lists = [
      [],
      Array(20).fill(1),
      Array(70_000).fill(1),
      {},
      Object.fromEntries(Array.from({ length: 20 }, (_, n) => [`k${n}`, [n]])),
    ]
    const extensions = [1, 2, 4, 8, 16, 3, 300, 4_000].map((length) => new ExtData(9, new Uint8Array(length)))
    const all = [...values, ...bytes, ...lists, ...extensions, new Date(0), [[[...values], { a: [{}] }]]]
    for (const value of all) {
      const packed = encoder.encode(value)
      expect(frameFault(packed, 8)).toBeUndefined()
      if (packed.length > 1) expect(frameFault(Buffer.concat([Buffer.from([0x92]), packed]), 8)).toBe('lengths')
    }
    expect(frameFault(encoder.encode(all), 8)).toBeUndefined()
    expect(frameFault(encoder.encode([[[1]]]), 2)).toBe('depth')
  })

  it('keeps prototypes out', () => {
    const hostile = decode(Buffer.from('{"__proto__":{"admin":true},"a":1}'))
    expect(hostile).toMatchObject({ ok: false, error: { message: 'The key __proto__ is not allowed' } })
    expect(decode(Buffer.from('{"a":[{"__pr\\u006fto__":1}]}'))).toMatchObject({ ok: false })
    const packed = new Encoder().encode(JSON.parse('{"__proto__":{"admin":true}}'))
    expect(decode(packed)).toMatchObject({ ok: false })
  })

  it('says bytes as base64 in JSON and as bytes in msgpack', () => {
    const value = { data: new Uint8Array([1, 2, 3]), list: [Buffer.from([4])] }
    expect(decode(encode(value, 'json'))).toMatchObject({ value: { data: 'AQID', list: ['BA=='] } })
    expect(decode(encode(value))).toMatchObject({ value: { data: new Uint8Array([1, 2, 3]) } })
  })
})
