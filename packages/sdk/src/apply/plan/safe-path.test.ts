import { posix, win32 } from 'node:path'
import fc from 'fast-check'
import { describe, expect, it, vi } from 'vitest'
import { checkPath, PathTree } from './safe-path.js'

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
    ['a/'.repeat(100).concat('b'), 'more than 100 names'],
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

describe('PathTree', () => {
  const twins = (...paths: string[]) => {
    const tree = new PathTree(paths)
    return Object.fromEntries(paths.flatMap((path) => (tree.twinOf(path) === undefined ? [] : [[path, tree.twinOf(path)]])))
  }

  it('finds what a file system without case takes for one, folders included', () => {
    expect(twins('A.ts', 'b.ts', 'a.ts')).toEqual({ 'a.ts': 'A.ts' })
    expect(twins('Src/a', 'src/b')).toEqual({ 'src/b': 'Src' })
    expect(twins('Src/x/a', 'src/X/b')).toEqual({ 'src/X/b': 'Src' })
    expect(twins('caf\u00e9', 'cafe\u0301')).toEqual({ 'cafe\u0301': 'caf\u00e9' })
    expect(Object.keys(twins('straße', 'STRASSE', 'ﬁle', 'file'))).toHaveLength(2)
    expect(twins('src/a', 'src/b', 'a', 'b', 'a')).toEqual({})
  })

  it('finds a file where another path needs a folder, in any order', () => {
    const tree = new PathTree(['a/b/c', 'a/b', 'a/bc', 'x'])
    expect(['a/b/c', 'a/b', 'a/bc', 'x'].map((path) => tree.fileAbove(path))).toEqual(['a/b', undefined, undefined, undefined])
  })

  // Fails where each leading part of a path is folded: 800 paths of one return took 22 s, and 4 GiB with names that grow as they are folded.
  it('folds each name once, however deep a path is', () => {
    const deep = Array.from({ length: 300 }, (_, at) => `${at}${'/\ufdfa'.repeat(250)}`)
    const folded = vi.spyOn(String.prototype, 'normalize')
    new PathTree(deep)
    const characters = folded.mock.contexts.reduce((sum: number, text) => sum + String(text).length, 0)
    expect(characters).toBeLessThan(25 * deep.join('').length)
  })
})
