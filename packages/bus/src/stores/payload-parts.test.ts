import type { WorkContext, WorkOutput } from '@passover/schemas'
import { canonicalJson, PART_INLINE_BYTES, PARTS_INLINE_BYTES, sha256 } from '@passover/schemas'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { PartStore } from '../types/stores.js'
import { loadParts } from './part-store.js'
import { joinContext, joinOutput, type LoadedPart, splitContext, splitOutput } from './payload-parts.js'

const file = fc.record(
  {
    path: fc.stringMatching(/^[a-z/.]{1,12}$/),
    content: fc.oneof(fc.string({ unit: 'binary' }), fc.constant(null)),
    metadata: fc.constant({ size_bytes: 1, last_modified: 2, is_binary: false }),
  },
  { requiredKeys: ['path'], noNullPrototype: true },
)
const context = fc
  .record(
    {
      session_id: fc.string(),
      directory: fc.string(),
      objective: fc.string({ unit: 'binary' }),
      files: fc.uniqueArray(file, { maxLength: 5, selector: ({ path }) => path }),
      messages: fc.array(
        fc.record({ id: fc.string(), role: fc.constant('user'), parts: fc.constant([]), timestamp: fc.nat() }, { noNullPrototype: true }),
      ),
      tool_results: fc.array(fc.record({ tool_name: fc.string() }, { noNullPrototype: true })),
      todos: fc.array(fc.record({ content: fc.string() }, { noNullPrototype: true })),
    },
    { requiredKeys: ['session_id', 'directory', 'objective', 'files', 'messages'], noNullPrototype: true },
  )
  .map((value) => value as unknown as WorkContext)

const load = (parts: { name: string; data?: Uint8Array | undefined }[]): LoadedPart[] =>
  parts.flatMap((part) => (part.data ? [{ name: part.name, data: part.data }] : []))

describe('context parts', () => {
  it('put together give the context that was cut', () => {
    fc.assert(
      fc.property(context, (given) => {
        expect(joinContext(load(splitContext(given).parts))).toEqual({ ok: true, value: given })
      }),
    )
  })

  it('keep the mark of byte order that a file begins with', () => {
    const files = [{ path: 'a.cs', content: '\uFEFFusing System;' }]
    const given = { session_id: 's', directory: '/', objective: '\uFEFFo', files, messages: [] } as unknown as WorkContext
    expect(joinContext(load(splitContext(given).parts))).toEqual({ ok: true, value: given })
  })

  it('are named, sized and hashed by their bytes, a file by its raw content', () => {
    const given = {
      session_id: 's',
      directory: '/',
      objective: 'o',
      files: [{ path: 'a.ts', content: 'äb' }],
      messages: [],
      tool_results: [],
    } as unknown as WorkContext
    const { parts } = splitContext(given)
    expect(parts.map((part) => part.name)).toEqual(['context', 'tool_results', 'file:a.ts'])
    expect(parts.at(-1)).toMatchObject({ hash: sha256('äb'), size: 3 })
    expect(parts[0]?.hash).toBe(sha256(canonicalJson({ session_id: 's', directory: '/', objective: 'o', files: [{ path: 'a.ts' }] })))
  })

  it('that were dropped leave the rest whole', () => {
    fc.assert(
      fc.property(context, (given) => {
        const kept = load(splitContext(given).parts).filter((part) => !part.name.startsWith('file:') && part.name !== 'messages')
        const joined = joinContext(kept)
        const files = given.files.map(({ content, ...rest }) => (content === null ? { ...rest, content } : rest))
        expect(joined).toEqual({ ok: true, value: { ...given, messages: [], files } })
      }),
    )
  })

  it('hold nothing in "context" that policy could drop, and that approvers are shown by its own part', () => {
    const files = (content: unknown) => ({ files: [{ path: '.env', content }] })
    expect(joinContext([{ name: 'context', data: Buffer.from('{"objective":["delete"]}') }])).toEqual({
      ok: false,
      error: 'the objective is not text',
    })
    for (const hidden of [files('SECRET'), files(''), files(7), { tool_results: [{}] }, { messages: [{}] }])
      expect(joinContext([{ name: 'context', data: Buffer.from(JSON.stringify({ objective: 'o', ...hidden })) }])).toEqual({
        ok: false,
        error: expect.stringMatching(/^(the content of .env|tool_results|messages) is in the part "context", but belongs in its own part/),
      })
  })

  it('that are no parts of a context are an error, not an exception', () => {
    const bytes = (text: string) => new TextEncoder().encode(text)
    expect(joinContext([])).toMatchObject({ ok: false })
    expect(joinContext([{ name: 'context', data: bytes('{') }])).toMatchObject({ ok: false })
    expect(joinContext([{ name: 'context', data: bytes('null') }])).toMatchObject({ ok: false })
    expect(joinContext([{ name: 'context', data: bytes('{"files":[null]}') }])).toMatchObject({ ok: false })
    expect(
      joinContext([
        { name: 'context', data: bytes('{"files":[{"path":"a"}]}') },
        { name: 'file:a', data: new Uint8Array([0xff]) },
      ]),
    ).toMatchObject({ ok: false })
  })
})

describe('output parts', () => {
  const artifact = (size: number) => ({ type: 'finding', message: 'x'.repeat(size) })
  const output = (...sizes: number[]) => ({ status: 'completed', artifacts: sizes.map(artifact) }) as unknown as WorkOutput

  it('are the artifacts over the limit, and go back to their place', () => {
    const given = output(10, PART_INLINE_BYTES, 20, PART_INLINE_BYTES + 5)
    const { output: cut, parts } = splitOutput(given)
    expect(parts.map((part) => part.name)).toEqual(['artifact:1', 'artifact:3'])
    expect(cut.artifacts).toMatchObject([{ type: 'finding' }, { part: 'artifact:1' }, { type: 'finding' }, { part: 'artifact:3' }])
    expect(joinOutput(cut, load(parts))).toEqual({ ok: true, value: given })
  })

  it('are the largest until what stays is within the limit of all, whatever each is', () => {
    const given = { ...output(...Array<number>(8).fill(200_000)), output: 't'.repeat(210_000) } as WorkOutput
    const { output: cut, parts } = splitOutput(given)
    expect(parts.map(({ name }) => name).sort()).toEqual([...[0, 1, 2, 3, 4, 5].map((n) => `artifact:${n}`), 'output'])
    expect(JSON.stringify(cut).length).toBeLessThanOrEqual(PARTS_INLINE_BYTES)
    expect(joinOutput(cut, load(parts))).toEqual({ ok: true, value: given })
  })

  it('leave room for what cannot travel apart', () => {
    const summary = { findings: ['f'.repeat(400_000)] }
    const given = { ...output(100_000, 100_001), summary } as unknown as WorkOutput
    expect(splitOutput(given).parts.map(({ name }) => name)).toEqual(['artifact:1'])
  })

  it('are a large text too, of which the beginning stays', () => {
    const text = `${'\u0000'.repeat(1_999)}😀${'x'.repeat(1_100_000)}`
    const given = { ...output(10), output: text } as WorkOutput
    const { output: cut, parts } = splitOutput(given)
    expect(cut).toMatchObject({ artifacts: given.artifacts, output: { part: 'output', begins: '\u0000'.repeat(1_999) } })
    expect(parts).toMatchObject([{ name: 'output', hash: sha256(text) }])
    expect(joinOutput(cut, load(parts))).toEqual({ ok: true, value: given })
    expect(joinOutput(cut, [])).toEqual({ ok: false, error: 'the part "output" is missing' })
  })

  it('leave a small output as it is', () => {
    const given = output(1, 2)
    expect(splitOutput(given)).toEqual({ output: given, parts: [] })
  })

  it('stand in one place each: a small body does not become a large one', () => {
    const part = { name: 'artifact:0', data: Buffer.from('{"type":"message"}') }
    expect(joinOutput({ artifacts: [{ part: 'artifact:0' }] }, [part])).toMatchObject({ ok: true })
    const twice = joinOutput({ artifacts: [{ part: 'artifact:0' }, { part: 'artifact:0' }] }, [part])
    expect(twice).toEqual({ ok: false, error: 'the part "artifact:0" is referenced twice' })
    const context = { name: 'context', data: Buffer.from('{"files":[{"path":"a"},{"path":"b"},{"path":"a"}]}') }
    const files = joinContext([context, { name: 'file:a', data: Buffer.from('x') }])
    expect(files).toEqual({ ok: false, error: 'the part "file:a" is referenced twice' })
  })

  it('with a size that is no whole number of bytes are not loaded', async () => {
    const store = { fetch: () => Promise.reject(new Error('it was fetched')) } as unknown as PartStore
    for (const size of [-1, Number.NaN, 0.5, '1' as unknown as number]) {
      const part = { name: 'artifact:0', hash: '0'.repeat(64), size }
      await expect(loadParts(store, [part])).rejects.toThrow('not a whole number')
    }
  })

  it('that are missing or no JSON are an error', () => {
    expect(joinOutput({ artifacts: [{ part: 'artifact:0' }] }, [])).toMatchObject({ ok: false })
    expect(joinOutput({ artifacts: [{ part: 'artifact:0' }] }, [{ name: 'artifact:0', data: new Uint8Array([1]) }])).toMatchObject({
      ok: false,
    })
    expect(joinOutput({ artifacts: 'none' }, [])).toMatchObject({ ok: true })
    expect(joinOutput({ artifacts: [{ type: 'finding', part: 'artifact:0' }, null] }, [])).toMatchObject({ ok: true })
  })
})
