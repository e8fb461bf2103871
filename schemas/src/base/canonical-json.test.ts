import canonicalize from 'canonicalize'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { canonicalJson, sha256 } from './canonical-json.js'

it('sorts keys and has one form for equal values', () => {
  expect(canonicalJson({ b: [1, 'é'], a: { d: null, c: 1e21 } })).toBe('{"a":{"c":1e+21,"d":null},"b":[1,"é"]}')
  fc.assert(
    fc.property(fc.dictionary(fc.string({ unit: 'binary' }), fc.jsonValue()), (value) => {
      const reversed = Object.fromEntries(Object.entries(value).reverse())
      expect(canonicalJson(reversed)).toBe(canonicalJson(value))
    }),
  )
})

it('says what the library says of anything', () => {
  const values = fc.letrec((tie) => ({
    leaf: fc.oneof(fc.string({ unit: 'binary' }), fc.double(), fc.constantFrom(null, undefined, true, -0, new Date(5), Symbol('s'))),
    value: fc.oneof(
      { depthSize: 'small' },
      tie('leaf'),
      fc.array(tie('value')),
      fc.dictionary(fc.string({ unit: 'binary' }), tie('value')),
    ),
  })).value
  const said = (say: () => unknown) => {
    try {
      return say()
    } catch {
      return 'refused'
    }
  }
  fc.assert(
    fc.property(values, (value) => {
      expect(said(() => canonicalJson(value))).toBe(said(() => canonicalize(value) ?? 'refused'))
    }),
  )
})

it('refuses a circle', () => {
  const circle: Record<string, unknown> = {}
  circle.self = { deeper: [circle] }
  expect(() => canonicalJson(circle)).toThrow()
})

it.each([
  ['a lone surrogate', '\ud800'],
  ['one in a key', { '\ud800': 1 }],
  ['NaN', Number.NaN],
  ['nothing', undefined],
])('throws on %s', (_, value) => {
  expect(() => canonicalJson(value)).toThrow()
})

it('hashes text by its UTF-8', () => {
  expect(sha256('')).toBe('e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855')
  expect(sha256('é')).toBe(sha256(new Uint8Array([0xc3, 0xa9])))
})
