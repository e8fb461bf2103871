import type { NumberedModification } from '@passover/core'
import type { FileModificationArtifact } from '@passover/schemas'
import type { Applied, Planned, Sides } from '@passover/sdk'
import picocolors from 'picocolors'
import { describe, expect, it } from 'vitest'
import { renderApplied, renderPlan, renderUndone } from './apply.js'

const colors = picocolors.createColors(false)
const sides: Sides = { old_content: 'a\n', current: 'c\n', new_content: 'b\n', encoding: 'utf8' }

function change(number: number, path: string, more: Partial<FileModificationArtifact> = {}): NumberedModification {
  const modification = { path, old_content: 'a\n', new_content: 'b\n', reason: 'x', confidence: 'high', ...more } as const
  return { number, digest: String(number), modification: { type: 'file_modification', ...modification } }
}
const of = (number: number, path: string) => ({ number, digest: String(number), path, operation: 'modify' as const })
const all = [change(1, 'one'), change(2, 'two'), change(3, 'three', { encoding: 'base64' }), change(4, 'four')]

describe('a plan', () => {
  it('shows each change with its diff, its conflict with three sides, and what is not taken', () => {
    const items: Planned[] = [
      { ...of(1, 'one'), verdict: 'ready' },
      { ...of(2, 'two'), verdict: 'conflict', why: 'it was changed since', sides },
      { ...of(3, 'three'), verdict: 'already' },
    ]
    const text = renderPlan({ items }, { colors, all })
    expect(text).toMatch(/1 {2}one {2}modify[\s\S]*-a\n\+b/)
    expect(text).toMatch(/conflict: it was changed since[\s\S]*proposed:[\s\S]*-a\n\+b[\s\S]*saw it:[\s\S]*-a\n\+c/)
    expect(text).toMatch(/3 {2}three {2}as proposed already\n {2}\(given as base64\)/)
    expect(text).toMatch(/4 {2}four {2}rejected/)
    expect(text).toContain(
      '1 change in the way, so nothing was written: a set is applied whole or not at all; the others are applied with --only.',
    )
  })

  it('says so where everything is in the way', () => {
    const items: Planned[] = [{ ...of(1, 'one'), verdict: 'refused', why: 'the path is absolute' }]
    const text = renderPlan({ items }, { colors, all: all.slice(0, 1) })
    expect(text).toContain('refused: the path is absolute')
    expect(text).not.toContain('--only')
  })
})

describe('what was done', () => {
  const nothing: Applied = {
    applied: [],
    already: [],
    conflicts: [],
    held_back: [],
    rejected: [],
    applied_by: 'ann',
    recorded: true,
    settled: [],
  }
  const say = (applied: Partial<Applied>) => renderApplied({ ...nothing, ...applied }, { colors, all, id: 'the-pass' })

  it('names each file, who approved and how it is put back', () => {
    const text = say({ applied: ['one'], already: ['two'], rejected: ['four'], recorded: false })
    expect(text).toMatch(/✓ one[\s\S]*= two was so already[\s\S]*– four rejected/)
    expect(text).toContain('Applied 1 change, approved by ann. Put back: passover undo the-pass')
    expect(text).toContain('The record could not be stored yet')
    expect(say({})).toBe('There is nothing to do.')
  })

  it('says that nothing was written where something was in the way', () => {
    const gone = { old_content: 'a\n', new_content: 'b\n', encoding: 'utf8' as const }
    const conflicts: Applied['conflicts'] = [
      { ...of(1, 'one'), kind: 'conflict', why: 'it is not there', sides: gone },
      { ...of(2, 'two'), kind: 'conflict', why: 'it was changed since', sides: { ...sides, encoding: 'base64' } },
      { ...of(4, 'four'), kind: 'refused', why: 'the path is absolute' },
    ]
    const text = say({ conflicts, held_back: ['three'] })
    expect(text).toMatch(/✗ one conflict: it is not there[\s\S]*\(it is not there\)/)
    expect(text).toContain('(binary)')
    expect(text).toContain('✗ four refused: the path is absolute')
    expect(text).toContain('– three was left out with them')
    expect(text).toMatch(/Nothing was written\.$/)
  })

  it('tells what a killed process had left', () => {
    const settled: Applied['settled'] = [
      { id: 'old', kind: 'apply', outcome: 'finished' },
      { id: 'older', kind: 'undo', outcome: 'put_back' },
    ]
    expect(say({ settled })).toMatch(/an application of old had been interrupted and was finished\n.*an undo of older .* put back/)
  })

  it('tells what a killed process had changed and could not be put back, and where its original is', () => {
    const kept = '.passover/apply/old/n/before-0'
    const settled: Applied['settled'] = [{ id: 'old', kind: 'apply', outcome: 'put_back', left: [{ path: 'a', kept }, { path: 'new' }] }]
    const told = `put back, but for what was changed since: a (what stood there before: ${kept}; delete it when you are done with it), new`
    expect(say({ settled })).toContain(told)
    const key = { originator: 'alice', subagent: 'audit', id: 'the-pass' }
    expect(renderUndone({ key, undone: ['one'], conflicts: [], recorded: true, settled }, colors)).toContain(told)
  })

  it('tells what was put back, and what was not', () => {
    const key = { originator: 'alice', subagent: 'audit', id: 'the-pass' }
    const undone = { key, undone: ['one'], conflicts: [{ path: 'two', why: 'it was changed since' }], recorded: false, settled: [] }
    const text = renderUndone(undone, colors)
    expect(text).toMatch(/✓ one is as it was\n✗ two: it was changed since\nWhat was changed since is not put back/)
    expect(text).toContain('The record could not be stored yet')
    expect(renderUndone({ ...undone, conflicts: [], recorded: true }, colors)).toBe('✓ one is as it was')
  })
})
