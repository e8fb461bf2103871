import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { lineChanges } from './line-changes.js'

const text = (...lines: string[]) => lines.map((line) => `${line}\n`).join('')

describe('how many lines a change adds and removes', () => {
  it.each([
    ['nothing', 'a\n', 'a\n', 0, 0],
    ['a new file', '', text('a', 'b'), 2, 0],
    ['a deleted one', text('a', 'b'), '', 0, 2],
    ['one line', text('a', 'b', 'c'), text('a', 'x', 'c'), 1, 1],
    ['the last line end', 'a\nb\n', 'a\nb', 1, 1],
    ['a moved line', text('a', 'b', 'c'), text('b', 'c', 'a'), 1, 1],
    ['a carriage return', 'a\r\n', 'a\n', 1, 1],
  ])('%s', (_, before, after, added, removed) => {
    expect(lineChanges(before, after)).toEqual({ added, removed })
  })

  /** Longest common subsequence, the slow way. */
  function common(a: string[], b: string[]): number {
    const row = new Array<number>(b.length + 1).fill(0)
    for (const x of a) {
      let diagonal = 0
      for (const [j, y] of b.entries()) {
        const above = row[j + 1] ?? 0
        row[j + 1] = x === y ? diagonal + 1 : Math.max(above, row[j] ?? 0)
        diagonal = above
      }
    }
    return row[b.length] ?? 0
  }

  it('are the fewest that there can be', () => {
    const some = fc.array(fc.constantFrom('a', 'b', 'c'), { maxLength: 12 })
    fc.assert(
      fc.property(some, some, (a, b) => {
        const kept = common(a, b)
        expect(lineChanges(text(...a), text(...b))).toEqual({ added: b.length - kept, removed: a.length - kept })
      }),
    )
  })

  it('of texts that have hardly a line in common are all of them, and found out quickly', () => {
    const lines = (name: string) => text(...Array.from({ length: 20_000 }, (_, n) => (n % 100 === 0 ? 'same' : `${name}${n}`)))
    expect(lineChanges(lines('a'), lines('b'))).toEqual({ added: 19_999, removed: 19_999 })
  })
})
