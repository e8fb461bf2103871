import { sha256 } from '@passover/schemas'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { partCipher } from './part-encryption.js'

describe('a seal', () => {
  it('opens what it closed, chunk by chunk, and nothing else does', () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 16, maxLength: 64 }), fc.nat(5), (bytes, index) => {
        const cipher = partCipher(sha256(bytes))
        const closed = cipher.apply(bytes, index)
        expect([...cipher.apply(closed, index)]).toEqual([...bytes])
        expect([...cipher.apply(closed, index + 1)]).not.toEqual([...bytes])
        expect([...partCipher(sha256('other')).apply(closed, index)]).not.toEqual([...bytes])
      }),
    )
  })

  it('is the same for the same hash, and its token does not tell the hash', () => {
    const hash = sha256('x')
    expect(partCipher(hash).token).toBe(partCipher(hash).token)
    expect(partCipher(hash).token).not.toBe(hash)
    expect(partCipher(hash).token).toMatch(/^[0-9a-f]{64}$/)
    expect([...partCipher(hash).apply(new Uint8Array(8), 1)]).toEqual([...partCipher(hash).apply(new Uint8Array(8), 1)])
  })
})
