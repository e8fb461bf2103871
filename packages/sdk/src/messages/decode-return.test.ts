import { type Bus, encode } from '@passover/bus'
import { describe, expect, it } from 'vitest'
import { decodeReturn } from './decode-return.js'

const key = { originator: 'alice', subagent: 'audit', id: 'some-given-id' }
const open = (body: unknown, by: string) =>
  decodeReturn({ bus: {} as Bus }, key, { by, sequence: 5, time: 1_000, content_type: undefined, data: encode(body) })

describe('openReturn', () => {
  it('takes a worker`s word for failures of its own run, and the system`s for any', () => {
    const raw_output = { half: 'done' }
    expect(open({ v: 1, error: { code: 'E011', message: 'threw' }, raw_output }, 'audit')).toEqual({
      ok: false,
      error: { code: 'E011', message: 'threw', details: { raw_output } },
    })
    expect(open({ v: 1, error: { code: 'E003', message: 'cycle' } }, 'passover')).toMatchObject({ ok: false, error: { code: 'E003' } })
  })

  it.each([
    [{ code: 5 }],
    [{ code: { toString: 1, valueOf: 1 } }],
    ['text'],
    [{ code: 'E003', message: 'only the system may say so' }],
    [{ code: 'E043', message: 'nobody cancelled it' }],
  ])('makes E021 of %j by a worker, and keeps what it said', (error) => {
    const body = { v: 1, error }
    expect(open(body, 'audit')).toMatchObject({ ok: false, error: { code: 'E021', details: { raw_output: body } } })
  })
})
