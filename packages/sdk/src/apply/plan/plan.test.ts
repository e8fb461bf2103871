import { modificationsIn } from '@passover/core'
import type { FileModificationArtifact } from '@passover/schemas'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { FileState } from '../files/file-state.js'
import { planChanges } from './plan.js'

type Change = Partial<FileModificationArtifact> & { path: string }

function plan(changes: Change[], files: Record<string, string | Buffer | FileState> = {}, binary = false) {
  const artifacts = changes.map((one) => ({
    type: 'file_modification' as const,
    old_content: '',
    new_content: '',
    reason: 'r',
    confidence: 'high' as const,
    ...one,
  }))
  const view = new Map<string, FileState>()
  for (const [path, given] of Object.entries(files)) {
    const state: FileState =
      typeof given === 'string' || Buffer.isBuffer(given) ? { kind: 'file', bytes: Buffer.from(given), mode: 0o640 } : given
    view.set(path, state)
  }
  for (const { path } of changes) if (!view.has(path)) view.set(path, { kind: 'absent' })
  return planChanges(modificationsIn({ artifacts }), view, { binary })
}
const verdicts = (...given: Parameters<typeof plan>) => plan(...given).items.map(({ verdict }) => verdict)
const change = (path: string, old_content: string, new_content: string, more: object = {}): Change => ({
  path,
  old_content,
  new_content,
  ...more,
})

describe('planChanges', () => {
  it.each([
    ['modify as seen', change('a', 'x', 'y'), 'x', 'ready'],
    ['modify, done already', change('a', 'x', 'y'), 'y', 'already'],
    ['modify, changed since', change('a', 'x', 'y'), 'z', 'conflict'],
    ['modify, gone', change('a', 'x', 'y'), undefined, 'conflict'],
    ['modify nothing where nothing is (an empty old_content creates)', change('a', '', 'y'), undefined, 'ready'],
    ['modify an empty file', change('a', '', 'y'), '', 'ready'],
    ['say that it is to be modified, where nothing is', change('a', '', 'y', { operation: 'modify' }), undefined, 'conflict'],
    ['create', change('a', '', 'y', { operation: 'create' }), undefined, 'ready'],
    ['create, done already', change('a', '', 'y', { operation: 'create' }), 'y', 'already'],
    ['create over another', change('a', '', 'y', { operation: 'create' }), '', 'conflict'],
    ['delete as seen', change('a', 'x', '', { operation: 'delete' }), 'x', 'ready'],
    ['delete, gone already', change('a', 'x', '', { operation: 'delete' }), undefined, 'already'],
    ['delete, changed since', change('a', 'x', '', { operation: 'delete' }), 'z', 'conflict'],
    ['change nothing', change('a', 'x', 'x'), 'x', 'already'],
  ])('%s', (_, one, file, verdict) => {
    expect(verdicts([one], file === undefined ? {} : { a: file })).toEqual([verdict])
  })

  it('tells the three sides of a conflict', () => {
    const [text] = plan([change('a', 'old', 'new')], { a: '\ufeffnow' }).items
    expect(text).toMatchObject({ sides: { old_content: 'old', current: 'now', new_content: 'new', encoding: 'utf8' } })
    const [gone] = plan([change('a', 'old', 'new')]).items
    expect(gone).toMatchObject({ verdict: 'conflict', sides: { old_content: 'old', new_content: 'new' } })
    expect(gone).not.toHaveProperty('sides.current')
    const [bytes] = plan([change('a', 'AAE=', 'AAI=', { encoding: 'base64' })], { a: Buffer.from([0, 3]) }, true).items
    expect(bytes).toMatchObject({ sides: { old_content: 'AAE=', current: 'AAM=', new_content: 'AAI=', encoding: 'base64' } })
  })

  it('builds a later change of the same file on the earlier, and writes it once', () => {
    const { items, changes } = plan(
      [change('a', 'x', 'y'), change('a', 'y', 'z'), change('b', '', '1'), change('b', '1', '', { operation: 'delete' })],
      { a: 'x' },
    )
    expect(items.map(({ verdict }) => verdict)).toEqual(['ready', 'ready', 'ready', 'ready'])
    expect(changes).toMatchObject([{ path: 'a', before: { mode: 0o640 }, after: { bytes: Buffer.from('z'), mode: 0o640 } }])
    expect(verdicts([change('a', 'x', 'y'), change('a', 'x', 'z')], { a: 'x' })).toEqual(['ready', 'conflict'])
  })

  it('refuses binary contents unless told, wherever they stand', () => {
    const nul = change('a', 'x\0', 'y')
    expect(verdicts([nul], { a: 'x\0' })).toEqual(['refused'])
    expect(verdicts([change('a', 'x', 'y')], { a: Buffer.from([0]) })).toEqual(['refused'])
    expect(verdicts([change('a', '', 'AAE=', { encoding: 'base64' })])).toEqual(['refused'])
    expect(verdicts([change('a', '', Buffer.from('text').toString('base64'), { encoding: 'base64' })])).toEqual(['ready'])
    expect(verdicts([nul], { a: 'x\0' }, true)).toEqual(['ready'])
  })

  it('refuses what may be the same file elsewhere, what lies below a file of the set, and what cannot be written', () => {
    expect(verdicts([change('A.ts', '', 'x'), change('a.ts', '', 'y')])).toEqual(['ready', 'refused'])
    expect(verdicts([change('a', '', 'x'), change('a/b', '', 'y')])).toEqual(['ready', 'refused'])
    expect(verdicts([change('../a', '', 'x')])).toEqual(['refused'])
    expect(verdicts([change('a', 'x', 'y')], { a: { kind: 'refused', why: 'it is read-only' } })).toEqual(['refused'])
  })

  const path = fc.constantFrom('a', 'b', 'c', 'd/e', '../x')
  const content = fc.constantFrom('', 'x', 'y', 'x\r\ny', 'x\ny', '\0')
  const operation = fc.constantFrom(undefined, 'create' as const, 'modify' as const, 'delete' as const)
  const any = fc.record({ path, old_content: content, new_content: content, operation })

  it('changes all or nothing, each only where it was as seen, and is done when asked again', () => {
    fc.assert(
      fc.property(
        fc.array(any, { maxLength: 4 }),
        fc.dictionary(fc.constantFrom('a', 'b', 'c', 'd/e'), content),
        fc.boolean(),
        (changes, files, binary) => {
          const first = plan(changes, files, binary)
          const stopped = first.items.some(({ verdict }) => verdict === 'conflict' || verdict === 'refused')
          if (stopped) expect(first.changes).toEqual([])
          for (const { path: at, before, after } of first.changes) {
            expect(before?.bytes.toString()).toBe(files[at])
            expect(after?.bytes.toString()).not.toBe(files[at])
          }
          const once = new Set(changes.map((one) => one.path)).size === changes.length
          if (stopped || !once) return
          const then: Record<string, string> = { ...files }
          for (const { path: at, after } of first.changes) {
            if (after) then[at] = after.bytes.toString()
            else delete then[at]
          }
          expect(plan(changes, then, true).changes).toEqual([])
        },
      ),
      { numRuns: 2_000 },
    )
  })
})
