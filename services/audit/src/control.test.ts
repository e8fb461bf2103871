import { encode } from '@msgpack/msgpack'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { cutFrame, decodeFrame } from './control.js'

/** As a step's body carries it. */
function decodeControl(control: unknown): unknown {
  const frame = cutFrame(encode({ v: 1, control, parts: [] }))
  return frame && decodeFrame(frame)
}

const scalar = fc.oneof(fc.string({ maxLength: 30 }), fc.integer(), fc.boolean())
const fields = fc.dictionary(
  fc.stringMatching(/^[a-z]{1,12}$/).filter((name) => name !== 'policy'),
  scalar,
  { minKeys: 16, maxKeys: 40 },
)
const policies = fc.dictionary(fc.stringMatching(/^[a-z]{1,12}$/), scalar, { maxKeys: 40 })

describe('control frames', () => {
  it('gives the frame whatever the policy of the one before was', () => {
    fc.assert(
      fc.property(fields, policies, policies, fields, (before, one, other, after) => {
        for (const policy of [one, other, one, one]) {
          const control = { ...before, policy, ...after }
          expect(decodeControl(control)).toEqual(control)
        }
      }),
    )
  })

  it('knows small frames, frames without a policy, and bytes that are no frame', () => {
    expect(decodeControl({ id: 'x', policy: { a: 1 } })).toEqual({ id: 'x', policy: { a: 1 } })
    expect(decodeControl({ id: 'x' })).toEqual({ id: 'x' })
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 100 }), (bytes) => {
        const frame = cutFrame(bytes)
        const found = decodeFrame(frame ?? { rest: bytes, policy: { bytes, decoded: undefined } })
        expect(found === undefined || typeof found === 'object').toBe(true)
      }),
      { numRuns: 1000 },
    )
  })
})
