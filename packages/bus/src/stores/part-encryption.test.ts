import { sha256 } from '@passover/schemas'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { sealOf } from './part-encryption.js'

describe('a seal', () => {
  it('opens what it closed, chunk by chunk, and nothing else does', () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 16, maxLength: 64 }), fc.nat(5), (bytes, index) => {
        const seal = sealOf(sha256(bytes))
        const closed = seal.apply(bytes, index)
        expect([...seal.apply(closed, index)]).toEqual([...bytes])
        expect([...seal.apply(closed, index + 1)]).not.toEqual([...bytes])
        expect([...sealOf(sha256('other')).apply(closed, index)]).not.toEqual([...bytes])
      }),
    )
  })

  it('is the same for the same hash, and its token does not tell the hash', () => {
    const hash = sha256('x')
    expect(sealOf(hash).token).toBe(sealOf(hash).token)
    expect(sealOf(hash).token).not.toBe(hash)
    expect(sealOf(hash).token).toMatch(/^[0-9a-f]{64}$/)
    expect([...sealOf(hash).apply(new Uint8Array(8), 1)]).toEqual([...sealOf(hash).apply(new Uint8Array(8), 1)])
  })
})
