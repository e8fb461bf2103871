import { encode } from '@msgpack/msgpack'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { decodeControlFrame } from './control-frame.js'

const control = fc.dictionary(
  fc.stringMatching(/^[a-z]{1,12}$/).filter((name) => name !== 'policy'),
  fc.oneof(fc.string({ maxLength: 30 }), fc.integer(), fc.boolean()),
  { maxKeys: 40 },
)

describe('frameIn', () => {
  it('gives the frame of each body, whatever the one before was', () => {
    fc.assert(
      fc.property(control, control, (one, other) => {
        for (const said of [one, other, one]) {
          const frame = { ...said, policy: { base: 1 } }
          expect(decodeControlFrame(encode({ v: 1, control: frame, parts: [] }))?.frame).toEqual(frame)
        }
      }),
    )
  })

  it('keeps a copy of the bytes where a brief may need them, and of a large frame only their number', () => {
    const framed = (reason: string) => {
      const frame = { reason, policy: { base: 1 } }
      return { bytes: Buffer.from(encode(frame)), kept: decodeControlFrame(encode({ v: 1, control: frame, parts: [] })) }
    }
    const small = framed('r'.repeat(900))
    expect(small.kept).toMatchObject({ length: small.bytes.length, bytes: small.bytes })
    const large = framed('r'.repeat(4_000))
    expect(large.kept).toMatchObject({ frame: { reason: expect.any(String) }, length: large.bytes.length, bytes: undefined })
  })

  it('finds none without a policy, and none in bytes that are no body', () => {
    expect(decodeControlFrame(encode({ v: 1, control: { id: 'x' }, parts: [] }))).toBeUndefined()
    expect(decodeControlFrame(encode({ v: 1, control: null }))).toBeUndefined()
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 100 }), (bytes) => void expect(decodeControlFrame(bytes)).toBeUndefined()),
      { numRuns: 1000 },
    )
  })
})
