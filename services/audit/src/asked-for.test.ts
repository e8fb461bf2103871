import { type Bus, encode, readHeaders, splitContext } from '@passover/bus'
import { describe, expect, it } from 'vitest'
import { control, T0 } from '../testing/samples.js'
import { askedFor } from './asked-for.js'

const bus = { parts: { fetch: async ({ data }: { data?: Uint8Array }) => data } } as unknown as Bus
const context = (objective: string) => ({ objective, messages: [], tool_results: [], files: [{ path: `${objective}.ts`, content: 'x' }] })
const parts = (objective: string) => splitContext(context(objective) as never).parts

async function shown(body: object) {
  const stored = { sequence: 1, time: T0, subject: 'request.scout.alice', headers: readHeaders('NATS/1.0\r\n\r\n'), data: encode(body) }
  const { objective, files } = await askedFor(bus, control({ constraints: [] }) as never, stored)
  return [objective, ...files.map(({ path }) => path)]
}

describe('what a held pass asks for', () => {
  it('is read from an envelope or from a plain request', async () => {
    expect(await shown({ v: 1, request: {}, parts: parts('a') })).toEqual(['a', 'a.ts'])
    expect(await shown({ id: 'x', work_context: context('b') })).toEqual(['b', 'b.ts'])
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
