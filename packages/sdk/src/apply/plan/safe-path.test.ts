import { posix, win32 } from 'node:path'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { caseTwins, checkPath } from './safe-path.js'

describe('judgePath', () => {
  it.each([
    ['a.ts', 'a.ts'],
    ['./src/../a.ts', undefined],
    ['./src//deep/./a.ts', 'src/deep/a.ts'],
    ['.github/workflows/x.yml', '.github/workflows/x.yml'],
    ['.gitignore', '.gitignore'],
    ['src/..a/b..c', 'src/..a/b..c'],
    ['console.ts', 'console.ts'],
    ['backup~1', 'backup~1'],
    ['übung/日本.md', 'übung/日本.md'],
    ['with space/a b', 'with space/a b'],
  ])('%s', (path, expected) => {
    const judged = checkPath(path)
    expect(judged.ok ? judged.path : undefined).toBe(expected)
  })

  it.each([
    ['', 'itself'],
    ['.', 'itself'],
    ['a/', 'directory'],
    ['..', 'leads out'],
    ['../a', 'leads out'],
    ['a/../../b', 'leads out'],
    ['a/..', 'leads out'],
    ['/etc/passwd', 'absolute'],
    ['//host/share', 'absolute'],
    ['C:/x', 'absolute'],
    ['c:x', 'absolute'],
    ['src/a:stream', 'colon'],
    ['..\\a', 'backslash'],
    ['a\\..\\..\\b', 'backslash'],
    ['a\0.ts', 'control'],
    ['a\n', 'control'],
    ['a.ts.', 'ends in a dot'],
    ['a /b', 'ends in a dot'],
    ['.../x', 'ends in a dot'],
    ['nul', 'device'],
    ['src/CON.ts', 'device'],
    ['Com1', 'device'],
    ['lpt¹.txt', 'device'],
    ['aux .h', 'device'],
    ['.git/config', 'writes to .git'],
    ['sub/.GIT/hooks/pre-commit', 'writes to .git'],
    ['.git', 'writes to .git'],
    ['.g\u200cit/config', 'writes to .git'],
    ['git~1/config', 'writes to git~1'],
    ['GI7EBA~1/config', 'writes to GI7EBA~1'],
    ['.passover/server.json', 'writes to .passover'],
    ['.PASSOVER/x', 'writes to .passover'],
    ['.pa\u017f\u017fover/x', 'writes to .passover'],
    ['x'.repeat(256), 'too long'],
  ])('refuses %j: %s', (path, why) => {
    expect(checkPath(path)).toMatchObject({ ok: false, why: expect.stringContaining(why) })
  })

  const piece = fc.oneof(
    fc.constantFrom('..', '.', '/', '\\', 'C:', 'a', '.git', '.GIT', '.passover', 'nul', '\0', ' ', '~', '\u200b', 'b.ts'),
    fc.string({ maxLength: 4, unit: 'binary' }),
  )
  const hostile = fc.array(piece, { maxLength: 8 }).map((pieces) => pieces.join(''))

  it('lets nothing through that leads out or to what is never written, on any system', () => {
    fc.assert(
      fc.property(hostile, (given) => {
        const judged = checkPath(given)
        if (!judged.ok) return
        for (const { resolve, sep } of [posix, win32]) {
          const root = sep === '/' ? '/root/project' : 'C:\\root\\project'
          expect(resolve(root, judged.path).startsWith(`${root}${sep}`)).toBe(true)
        }
        for (const name of judged.names) expect(['.git', '.passover', '..', '.', '']).not.toContain(name.toLowerCase())
        expect(checkPath(judged.path)).toEqual(judged)
      }),
      { numRuns: 3_000 },
    )
  })
})

describe('caseTwins', () => {
  it('finds what a file system without case takes for one, folders included', () => {
    expect(caseTwins(['A.ts', 'b.ts', 'a.ts'])).toEqual(new Map([['a.ts', 'A.ts']]))
    expect(caseTwins(['Src/a', 'src/b'])).toEqual(new Map([['src/b', 'Src']]))
    expect(caseTwins(['caf\u00e9', 'cafe\u0301'])).toEqual(new Map([['cafe\u0301', 'caf\u00e9']]))
    expect(caseTwins(['straße', 'STRASSE', 'ﬁle', 'file']).size).toBe(2)
    expect(caseTwins(['src/a', 'src/b', 'a', 'b', 'a'])).toEqual(new Map())
  })
})
