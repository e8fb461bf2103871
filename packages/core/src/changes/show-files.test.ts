import vm from 'node:vm'
import { describe, expect, it } from 'vitest'
import { visible } from '../text/index.js'
import { type FileEffect, type ShowOptions, showFiles } from './show-files.js'

function show(
  old: string | Buffer | undefined,
  content: string | Buffer | undefined,
  more: Partial<FileEffect> = {},
  options: ShowOptions = {},
) {
  const side = (given: string | Buffer | undefined) => (given === undefined ? undefined : { bytes: Buffer.from(given as string) })
  const [shown] = showFiles([{ path: 'src/a.js', numbers: [1], reasons: ['r'], before: side(old), after: side(content), ...more }], options)
  if (!shown) throw new Error('nothing shown')
  return { ...shown, kinds: shown.warnings.map(({ kind }) => kind) }
}

const lines = (count: number, of: string) => Array.from({ length: count }, (_, n) => `${of}${n}\n`).join('')

describe('showFiles', () => {
  it('shows a unified diff with counts, sizes and hashes', () => {
    expect(show('one\ntwo\n', 'one\n2\n')).toMatchObject({
      operation: 'modify',
      added: 1,
      removed: 1,
      diff: '--- a/src/a.js\n+++ b/src/a.js\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n',
      before: { size: 8 },
      after: { size: 6, sha256: expect.stringMatching(/^[0-9a-f]{64}$/) },
      warnings: [],
    })
    expect(show(undefined, 'x')).toMatchObject({
      operation: 'create',
      diff: '--- /dev/null\n+++ b/src/a.js\n@@ -0,0 +1,1 @@\n+x\n\\ No newline at end of file\n',
    })
    expect(show('x\n', undefined)).toMatchObject({ operation: 'delete', diff: '--- a/src/a.js\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-x\n' })
    expect(show(undefined, '')).toMatchObject({ operation: 'create', added: 0 })
  })

  it.each(['\r', '\u2028', '\u2029'])('a comment that %j turns into code is one visible line and warned of', (end) => {
    const evil = `let x = 1\n// see the docs ${end}globalThis.pwned = 1\n`
    const ran = vm.createContext({})
    vm.runInContext(evil, ran)
    expect(ran.pwned).toBe(1)
    const { diff = '', warnings } = show('let x = 1\n', evil)
    const [name] = warnings[0]?.characters ?? []
    expect(warnings).toMatchObject([{ kind: 'hidden_characters', message: `hidden characters in the new content: ${name}` }])
    expect(visible(diff, { lines: true }).split('\n')).toContain(`+// see the docs ${name}globalThis.pwned = 1`)
  })

  it('names hidden characters of path, reason and added lines, but not of lines that stay', () => {
    const all = '\b\v\f\u0085\u001b\u202e\u2066\u200b\ufeff\u{e0041}\ufe0f'
    expect(show('a\n', `a\n${all}\n`).warnings[0]?.characters).toEqual([
      '␈',
      '␋',
      '␌',
      '<U+0085>',
      '␛',
      '<U+202E>',
      '<U+2066>',
      '<U+200B>',
      '<U+FEFF>',
      '<U+E0041>',
      '<U+FE0F>',
    ])
    expect(show(`${all}\na\n`, `${all}\nb\n`).kinds).toEqual([])
    expect(show('a', 'b', { path: 'a\u202egpj.js', reasons: ['tidy\u200b'] }).warnings.map(({ message }) => message)).toEqual([
      'hidden characters in the path: <U+202E>',
      'hidden characters in the reason: <U+200B>',
    ])
    expect(show('a\n', `a\nok${'\u2003'.repeat(70)}return true\n`).warnings[0]?.message).toBe(
      'hidden characters in the new content: <U+2003>',
    )
    // A carriage return before the end of the file is no line end.
    expect(show('a\n', 'a\nb\r').kinds).toEqual(['hidden_characters'])
  })

  it('warns of look-alike letters, of files that run by themselves, of programs, and of another encoding or line end', () => {
    expect(show('a\n', 'if (аdmin) {}\n').warnings).toMatchObject([{ kind: 'mixed_scripts', message: expect.stringContaining('аdmin') }])
    expect(show('a\n', 'b\n', { path: '.GitHub/workflows/ci.yml' }).kinds).toEqual(['runs_by_itself'])
    expect(show('a\n', 'b\n', { before: { bytes: Buffer.from('a'), mode: 0o755 } }).kinds).toEqual(['executable'])
    expect(show(undefined, Buffer.from('\x7fELF\0')).kinds).toEqual(['executable'])
    expect(show('a\nb\n', 'a\r\nb\r\n').kinds).toEqual(['line_ends'])
    expect(show('a\n', '\ufeffa\n').kinds).toEqual(['hidden_characters', 'encoding'])
    expect(show('a\r\nb\r\n', 'a\r\nc\r\n').kinds).toEqual([])
  })

  it('shows size, hash and type of binary content, and no diff', () => {
    const png = Buffer.from('\x89PNG\r\n\x1a\n\0', 'latin1')
    expect(show('text', png)).toMatchObject({ omitted: 'binary', after: { size: 9, type: 'PNG image' }, added: 0 })
    expect(show('text', png).diff).toBeUndefined()
    // With `whole` too: there is nothing to read.
    expect(show('text', png, {}, { whole: true }).omitted).toBe('binary')
  })

  it('stops at too many changes, and shows all lines of both sides on request', () => {
    const [old, content] = [lines(10_000, 'a'), lines(10_000, 'b')]
    expect(show(old, content)).toMatchObject({ omitted: 'too_many_changes' })
    const whole = show(old, content, {}, { whole: true })
    expect(whole).toMatchObject({ added: 10_000, removed: 10_000 })
    expect(whole.diff).toBe(`--- a/src/a.js\n+++ b/src/a.js\n@@ -1,10000 +1,10000 @@\n${lines(10_000, '-a')}${lines(10_000, '+b')}`)
    expect(whole.omitted).toBeUndefined()
    // Hidden characters are named also where no diff is shown.
    expect(show(old, `${content}\u202e`).kinds).toEqual(['hidden_characters'])
    // A new file is shown however many lines it has, within the size that a person can read.
    expect(show(undefined, content).added).toBe(10_000)
    expect(show(undefined, 'x'.repeat(5_000_000)).omitted).toBe('too_many_changes')
  })

  it('bounds all files together', () => {
    const effect = {
      path: 'a',
      numbers: [1],
      reasons: [],
      before: { bytes: Buffer.from(lines(900, 'a')) },
      after: { bytes: Buffer.from(lines(900, 'b')) },
    }
    const shown = showFiles([effect, effect, effect], { steps: 5_000_000 })
    expect(shown.map(({ omitted }) => omitted)).toEqual([undefined, 'too_many_changes', 'too_many_changes'])
    // The inbox looks at a bounded text of all files together, and a line costs as much as 16 characters.
    const short = { text: 100_000 }
    const hidden = (length: number) => ({ ...effect, before: undefined, after: { bytes: Buffer.from(`${'x'.repeat(length)}\u202e`) } })
    const some = showFiles([hidden(60_000), hidden(60_000), hidden(60_000)], short)
    expect(some.map(({ omitted }) => omitted)).toEqual([undefined, 'too_many_changes', 'too_many_changes'])
    expect(some.map(({ warnings }) => warnings.length)).toEqual([1, 0, 0])
    expect(show(undefined, '\n'.repeat(6_000), {}, short).omitted).toBe('too_many_changes')
    expect(show(undefined, 'x', { reasons: [`${'x'.repeat(100_000)}\u202e`] }, short).warnings).toEqual([])
    // A file with few changes has its diff, however many lines it has.
    const long = lines(40_000, 'a')
    expect(show(long, `${long}b\n`).diff).toContain('\n+b\n')
  })
})
