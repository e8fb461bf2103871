import { describe, expect, it } from 'vitest'
import { parseDiagnostics } from './checker.js'
import { applyFixes, leastConfidence, proposeFixes, reasonOf } from './fixes.js'

function mend(source: string, report: string): { text: string | undefined; confidence: string[] } {
  const files = new Map([['a.ts', source]])
  const fixes = proposeFixes(files, parseDiagnostics(report))
  return { text: applyFixes(files, fixes).get('a.ts'), confidence: fixes.map(({ confidence }) => confidence) }
}

describe('the compiler’s report', () => {
  it('is read line by line, with continued messages', () => {
    const report = `src/a.ts(3,14): error TS2322: Type 'X' is not assignable to type 'Y'.\n  Property 'z' is missing.\nFound 1 error.\n`
    expect(parseDiagnostics(report)).toEqual([
      {
        path: 'src/a.ts',
        line: 3,
        column: 14,
        code: 'TS2322',
        message: "Type 'X' is not assignable to type 'Y'. Property 'z' is missing.",
      },
    ])
    expect(parseDiagnostics('')).toEqual([])
  })
})

describe('corrections', () => {
  it('take the spelling that the compiler suggests, where it points', () => {
    const report = "a.ts(2,10): error TS2551: Property 'nmae' does not exist on type 'T'. Did you mean 'name'?"
    expect(mend('const x = 1\nreturn t.nmae + 1\n', report)).toEqual({ text: 'const x = 1\nreturn t.name + 1\n', confidence: ['high'] })
  })

  it('let an annotation give way, with less confidence', () => {
    const report = "a.ts(1,7): error TS2322: Type 'string' is not assignable to type 'number'."
    expect(mend("const n: number = 'a'\n", report)).toEqual({ text: "const n: string = 'a'\n", confidence: ['medium'] })
  })

  it('only silence what may be undefined, and say so', () => {
    const report = "a.ts(1,1): error TS18048: 'a.b' is possibly 'undefined'."
    expect(mend('a.b.c()\n', report)).toEqual({ text: 'a.b?.c()\n', confidence: ['low'] })
  })

  it('leave alone what no rule knows, other files, and places that do not fit', () => {
    for (const report of [
      "a.ts(1,1): error TS7006: Parameter 'x' implicitly has an 'any' type.",
      "b.ts(1,1): error TS2551: Property 'a' does not exist on type 'T'. Did you mean 'b'?",
      "a.ts(9,9): error TS2551: Property 'a' does not exist on type 'T'. Did you mean 'b'?",
      "a.ts(1,1): error TS2322: Type 'string' is not assignable to type 'number'.",
    ]) {
      expect(mend('call(x)\n', report)).toEqual({ text: 'call(x)\n', confidence: [] })
    }
  })

  it('are made together, of two that overlap the first', () => {
    const files = new Map([['a.ts', 'abcdef']])
    const fix = (start: number, end: number, text: string) => ({ path: 'a.ts', start, end, text, why: '', confidence: 'high' as const })
    expect(applyFixes(files, [fix(4, 5, 'E'), fix(0, 2, 'X'), fix(1, 3, 'Y')]).get('a.ts')).toBe('XcdEf')
  })

  it('that have the same explanation tell it once', () => {
    expect(reasonOf([{ why: 'TS1: a; b' }, { why: 'TS2: a; b' }, { why: 'TS1: a; b' }, { why: 'TS3: c' }])).toBe('TS1, TS2: a; b; TS3: c')
  })

  it('are as sure as the least sure of them', () => {
    expect(leastConfidence(['high', 'medium'])).toBe('medium')
    expect(leastConfidence(['low', 'high'])).toBe('low')
    expect(leastConfidence([])).toBe('high')
  })
})
