import { Encoder, ExtData } from '@msgpack/msgpack'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { decode, encode } from './codec.js'
import { intern } from './interned-values.js'
import { KeyCache } from './key-cache.js'

function roundTrip(value: unknown): unknown {
  const decoded = decode(encode(value))
  return decoded.ok ? decoded.value : decoded.error
}

describe('interned values', () => {
  it('are read as what they are, and as the same object each time', () => {
    const policy = Object.freeze({ enabled: true, timeout_ms: 30_000, notify_on_return: 'always' })
    const first = roundTrip({ a: 1, policy: intern(policy) }) as { policy: unknown }
    const second = roundTrip({ policy: intern(policy) }) as { policy: unknown }
    expect(first).toEqual({ a: 1, policy })
    expect(second.policy).toBe(first.policy)
    expect(Object.isFrozen(first.policy)).toBe(true)
  })

  it('differ where their bytes differ', () => {
    expect(roundTrip([intern({ a: 1 }), intern({ a: 2 })])).toEqual([{ a: 1 }, { a: 2 }])
  })

  it('travel as plain maps when they are large', () => {
    const large = { text: 'x'.repeat(5_000) }
    const sent = encode({ large: intern(large) })
    expect(sent).toEqual(new Encoder().encode({ large }))
  })

  it('hostile extensions are values or errors, never a throw, and hold no extension themselves', () => {
    const encoder = new Encoder()
    for (const data of [new Uint8Array([0xc1]), new Uint8Array(0), encoder.encode(new ExtData(1, encoder.encode({ a: 1 })))]) {
      expect(decode(encoder.encode(new ExtData(1, data)), 'msgpack').ok).toBe(false)
    }
    const unknown = decode(encoder.encode(new ExtData(9, new Uint8Array([1]))), 'msgpack')
    expect(unknown.ok).toBe(true)
  })
})

describe('the key cache', () => {
  it('gives every name as it is, however many there are', () => {
    const names = fc.array(fc.string({ unit: 'grapheme', minLength: 1, maxLength: 70 }), { minLength: 1, maxLength: 200 })
    fc.assert(
      fc.property(names, (texts) => {
        const cache = new KeyCache()
        for (const text of [...texts, ...texts]) {
          const bytes = Buffer.from(`..${text}`, 'utf8')
          expect(cache.decode(bytes, 2, bytes.length - 2)).toBe(Buffer.from(text, 'utf8').toString('utf8'))
        }
      }),
    )
  })

  it('does not keep the message that a name came from', () => {
    const cache = new KeyCache()
    const bytes = Buffer.from('name')
    cache.decode(bytes, 0, 4)
    bytes.write('eman')
    expect(cache.decode(Buffer.from('name'), 0, 4)).toBe('name')
    expect(cache.canBeCached(65)).toBe(false)
  })
})
