import { type Bus, CONTENT_TYPE, encode } from '@passover/bus'
import type { AnsweredPass } from '@passover/schemas'
import { describe, expect, it } from 'vitest'
import { readResult } from './result.js'

const bus = { parts: { fetch: async () => encode({ type: 'message' }, 'json') } } as unknown as Bus

function pass(body: unknown, type: 'msgpack' | 'json' = 'msgpack'): AnsweredPass {
  const data = body instanceof Uint8Array ? body : encode(body, type)
  return { return: { sequence: 1, time: 1, by: 'audit', attempt: 1, content_type: CONTENT_TYPE[type], data } } as unknown as AnsweredPass
}

describe('what came back', () => {
  it('is nothing while there is nothing', async () => {
    expect(await readResult(bus, {} as AnsweredPass)).toBeUndefined()
    expect(await readResult(bus, { return_left_out: true } as AnsweredPass)).toMatchObject({
      unreadable: expect.stringContaining('too large'),
    })
  })

  it('is an output, with its parts fetched, in either form', async () => {
    expect(await readResult(bus, pass({ v: 1, output: { status: 'completed' } }))).toEqual({ output: { status: 'completed' } })
    expect(await readResult(bus, pass({ status: 'completed' }, 'json'))).toEqual({ output: { status: 'completed' } })
  })

  it('is an error, with the raw output kept', async () => {
    const error = { code: 'E021', message: 'no output' }
    expect(await readResult(bus, pass({ v: 1, error, raw_output: 'x' }))).toEqual({ error, raw_output: 'x' })
    expect(await readResult(bus, pass({ v: 1, error }))).toEqual({ error })
    expect(await readResult(bus, pass({ v: 1, error: { code: 'E999' } }))).toMatchObject({ unreadable: expect.any(String) })
  })

  it('is unreadable where it is neither', async () => {
    expect(await readResult(bus, pass(new Uint8Array([0xc1])))).toMatchObject({ unreadable: expect.any(String) })
    expect(await readResult(bus, pass(['a list']))).toMatchObject({ unreadable: 'it is no record' })
    expect(await readResult(bus, pass({ v: 1, output: { artifacts: [{ part: 'artifact:0' }] } }))).toMatchObject({
      unreadable: expect.stringContaining('missing'),
    })
  })
})
