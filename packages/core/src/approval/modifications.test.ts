import type { FileModificationArtifact, WorkArtifact } from '@passover/schemas'
import { describe, expect, it } from 'vitest'
import { chooseModifications, modificationDigest, modificationsIn, takenModifications } from './modifications.js'

function change(path: string, rest: Partial<FileModificationArtifact> = {}): FileModificationArtifact {
  return { type: 'file_modification', path, old_content: 'a', new_content: 'b', reason: 'r', confidence: 'high', ...rest }
}
const note: WorkArtifact = { type: 'message', role: 'assistant', content: 'hello', visibility: 'user_visible' }

describe('modificationDigest', () => {
  it('is the same whatever the order of keys and absent fields, and another for any other change', () => {
    const { path, ...rest } = change('a.ts')
    expect(modificationDigest({ ...rest, encoding: undefined, path })).toBe(modificationDigest(change('a.ts')))
    for (const other of [{ path: 'b.ts' }, { new_content: 'c' }, { old_content: '' }, { operation: 'delete' as const }, { reason: 'x' }])
      expect(modificationDigest({ ...change('a.ts'), ...other })).not.toBe(modificationDigest(change('a.ts')))
  })
})

describe('the modifications of an output', () => {
  const all = modificationsIn({ artifacts: [note, change('a'), note, change('b'), change('c')] })

  it('are numbered from one, by themselves', () => {
    expect(all.map(({ number, modification }) => [number, modification.path])).toEqual([
      [1, 'a'],
      [2, 'b'],
      [3, 'c'],
    ])
  })

  it('are chosen by number; the rest is rejected by name, and what there is none of is told', () => {
    const { modifications, unknown } = chooseModifications(all, [1, 3, 7])
    expect(all.map(({ digest }) => modifications[digest])).toEqual(['taken', 'rejected', 'taken'])
    expect(unknown).toEqual([7])
    expect(Object.values(chooseModifications(all).modifications)).toEqual(['taken', 'taken', 'taken'])
    expect(Object.values(chooseModifications(all, []).modifications)).toEqual(['rejected', 'rejected', 'rejected'])
  })

  it('are taken one by one where the same one is proposed several times', () => {
    const thrice = modificationsIn({ artifacts: [change('a'), change('b'), change('a'), change('a')] })
    for (const only of [[1, 2], [3], [2, 4], [], [1, 2, 3, 4]]) {
      const decision = { verdict: 'approve' as const, modifications: chooseModifications(thrice, only).modifications }
      expect(takenModifications(thrice, decision).map(({ number }) => number)).toEqual(only)
    }
  })

  it('are taken as the decision says; unnamed and denied ones are not', () => {
    const { modifications } = chooseModifications(all, [1, 3])
    expect(takenModifications(all, { verdict: 'approve', modifications }).map(({ number }) => number)).toEqual([1, 3])
    expect(takenModifications(all, { verdict: 'deny', modifications })).toEqual([])
    expect(takenModifications(all, { verdict: 'approve' })).toEqual([])
    expect(takenModifications(all, { verdict: 'approve', modifications: { [all[1]?.digest ?? '']: 'taken' } })).toHaveLength(1)
  })
})
