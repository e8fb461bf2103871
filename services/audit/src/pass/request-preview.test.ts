import { type Bus, encode, readHeaders, splitContext } from '@passover/bus'
import { describe, expect, it } from 'vitest'
import { control, T0 } from '../../testing/samples.js'
import { previewRequest } from './request-preview.js'

const bus = { parts: { fetch: async ({ data }: { data?: Uint8Array }) => data } } as unknown as Bus
const context = (objective: string) => ({ objective, messages: [], tool_results: [], files: [{ path: `${objective}.ts`, content: 'x' }] })
const parts = (objective: string) => splitContext(context(objective) as never).parts

function asked(body: object) {
  const stored = { sequence: 1, time: T0, subject: 'request.scout.alice', headers: readHeaders('NATS/1.0\r\n\r\n'), data: encode(body) }
  return previewRequest(bus, control({ constraints: [] }) as never, stored)
}

async function shown(body: object) {
  const { objective, files } = await asked(body)
  return [objective, ...files.map(({ path }) => path)]
}

describe('what a held pass asks for', () => {
  it('is read from an envelope or from a plain request', async () => {
    expect(await shown({ v: 1, request: {}, parts: parts('a') })).toEqual(['a', 'a.ts'])
    expect(await shown({ id: 'x', work_context: context('b') })).toEqual(['b', 'b.ts'])
  })

  it('says where the objective, or its end, is not told', async () => {
    const part = (name: string, data: Uint8Array) => ({ name, hash: '', size: data.length, data })
    const of = (parts: object[]) => asked({ v: 1, request: {}, parts })
    const text = (value: string) => part('context', Buffer.from(value))
    expect(await of([text('{"objective":["delete","everything"]}')])).toMatchObject({ objective_left_out: 'it is not text' })
    expect(await of([text('{')])).toMatchObject({ objective_left_out: 'it cannot be read' })
    expect(await of([])).toMatchObject({ objective_left_out: 'it cannot be read' })
    expect(await of([part('context', new Uint8Array(1024 * 1024 + 1))])).toMatchObject({
      objective_left_out: 'its context has more than 1048576 bytes',
    })
    const long = await of([text(JSON.stringify({ objective: 'x'.repeat(4_100) }))])
    expect(long).toMatchObject({ objective: expect.stringMatching(/^x{3999}/), objective_left_out: '100 more characters follow' })
    expect(await of(parts('a'))).not.toHaveProperty('objective_left_out')
  })

  it('is what admission would dispatch, whatever stands beside it', async () => {
    expect(await shown({ id: 'x', work_context: context('dispatched'), parts: parts('shown') })).toEqual(['dispatched', 'dispatched.ts'])
    expect(await shown({ id: 'x', v: 1, work_context: context('dispatched'), parts: parts('shown') })).toEqual([
      'dispatched',
      'dispatched.ts',
    ])
    expect(await shown({ v: 1, request: {}, parts: parts('dispatched'), work_context: context('shown') })).toEqual([
      'dispatched',
      'dispatched.ts',
    ])
  })
})
