import { Encoder, ExtData } from '@msgpack/msgpack'
import { describe, expect, it } from 'vitest'
import { decode, encode } from './codec.js'
import { intern } from './interned-values.js'

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
