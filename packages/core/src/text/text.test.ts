import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { cut, cutStart, escapeJson, hiddenIn, logOptions, oneLine, printableJson, shellWord, visible, visibleLines } from './index.js'

/** An independent statement of what must never be printed raw. */
const HIDDEN =
  /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\u2028\u2029\p{Default_Ignorable_Code_Point}]|(?![ \u00a0\u202f\u3000])\p{Zs}|[\u00a0\u202f\u3000]\p{Zs}/u
const anyText = fc.oneof(fc.string({ unit: 'binary' }), fc.string({ unit: fc.nat(0xffff).map((code) => String.fromCharCode(code)) }))

const SHOWN: [string, string][] = [
  ['a\rb', 'a␍b'],
  ['\u001b]0;title\u0007', '␛]0;title␇'],
  ['\u0000\b\u000b\f\u007f', '␀␈␋␌␡'],
  ['\u0085\u009b31m', '<U+0085><U+009B>31m'],
  ['\u2028\u2029', '<U+2028><U+2029>'],
  ['\u061c\u200e\u200f\u202a\u202e\u2066\u2069', '<U+061C><U+200E><U+200F><U+202A><U+202E><U+2066><U+2069>'],
  ['\u200b\u200c\u200d\u2060\u2064\ufeff\u00ad\u180e\u034f\u3164\u115f\uffa0\u2800', ''],
  ['\u{e0041}\u{e007f}\u{e0100}', '<U+E0041><U+E007F><U+E0100>'],
  ['x\ufe0f', 'x<U+FE0F>'],
  ['\ue000\u{10ffff}', '<U+E000><U+10FFFF>'],
  ['\ud83dx\ude00', '<U+D83D>x<U+DE00>'],
  ['a\u2003b\u1680', 'a<U+2003>b<U+1680>'],
  ['a\u00a0\u00a0b \u3000c\t\u202f', 'a<U+00A0><U+00A0>b <U+3000>c␉<U+202F>'],
  ['\u{13441}\u{13442}\u{16fe4}\u{1d159}\u303f', '<U+13441><U+13442><U+16FE4><U+1D159><U+303F>'],
]

describe('visible', () => {
  it.each(SHOWN)('shows hidden characters, case %#', (text, shown) => {
    if (shown) expect(visible(text)).toBe(shown)
    expect(visible(text)).not.toMatch(HIDDEN)
    expect(hiddenIn(text)).not.toEqual([])
  })

  it('keeps letters of every script, accents and emoji sequences', () => {
    for (const text of [
      'Zürich',
      'é',
      'שלום',
      '日本語',
      '👩‍👩‍👧‍👦',
      '❤️',
      '👍🏽',
      '1️⃣',
      '🇩🇪',
      '☎️',
      '😀'.repeat(3),
      'Bonjour\u202f! 12\u00a0km',
      '一\u3000二',
    ]) {
      expect(visible(text)).toBe(text)
      expect(hiddenIn(text)).toEqual([])
    }
  })

  it('keeps line feeds and tabs only where asked, and shows a carriage return of CRLF', () => {
    expect(visible('a\tb\r\nc')).toBe('a␉b␍␊c')
    expect(visible('a\tb\r\nc', { lines: true })).toBe('a\tb␍\nc')
    expect(visibleLines('a\tb\r\nc\rd')).toBe('a\tb\nc␍d')
    expect(visible('src/a.ts   create')).toBe('src/a.ts␠␠␠create')
    expect(visibleLines('if (a)\n    b')).toBe('if (a)\n    b')
  })

  it('leaves no hidden character of any text', () => {
    fc.assert(
      fc.property(anyText, (text) => {
        const emojiLess = visible(text).replace(/\p{Extended_Pictographic}[\u200D\uFE0F\p{Extended_Pictographic}\p{EMod}]*/gu, '')
        expect(emojiLess).not.toMatch(HIDDEN)
        expect(visibleLines(text).replace(/\p{Extended_Pictographic}[\u200D\uFE0F]*|[\n\t]/gu, '')).not.toMatch(HIDDEN)
        expect(visible(visible(text))).toBe(visible(text))
      }),
      { numRuns: 2_000 },
    )
  })
})

describe('oneLine', () => {
  it('collapses white space and cuts to the width', () => {
    expect(oneLine('  line\r\n\tbreak \n')).toBe('line break')
    expect(oneLine('\u3000a\u2003\u2003 \u00a0b\u1680\u202f\u205fc\u00a0')).toBe('a b c')
    expect(oneLine('abcdef', 4)).toBe('abc…')
    expect(oneLine('abcd', 4)).toBe('abcd')
    expect(oneLine('\u2028 a\rb')).toBe('<U+2028> a␍b')
    expect(oneLine('\u001b'.repeat(10), 4)).toBe('␛␛␛…')
  })

  it('never exceeds its width', () => {
    fc.assert(
      fc.property(anyText, fc.nat(40), (text, width) => {
        const line = oneLine(text, width)
        expect(line.length).toBeLessThanOrEqual(width)
        expect(line).not.toMatch(/[\n\t\r]|(?! )\p{Zs}| {2}/u)
        expect(line).toBe(cut(oneLine(text), width))
      }),
    )
  })
})

describe('cut', () => {
  it('keeps graphemes whole and marks the cut', () => {
    expect(cut('ab😀', 4)).toBe('ab😀')
    expect(cut('ab😀x', 4)).toBe('ab…')
    expect(cut('ab😀x', 4, '')).toBe('ab😀')
    expect(cut('ab😀x', 3, '')).toBe('ab')
    expect(cut('x👩‍👩‍👧‍👦y', 8)).toBe('x…')
    expect(cut('e\u0301e\u0301e\u0301', 4)).toBe('e\u0301…')
    expect(cut('abc', 0)).toBe('')
    expect(cut('abc', 1)).toBe('…')
    expect(cutStart('x😀ab', 4)).toBe('…ab')
    expect(cutStart('x😀ab', 5)).toBe('x😀ab')
  })

  it('never halves a surrogate pair and never exceeds the limit', () => {
    const text = fc.string({ unit: fc.constantFrom('a', '😀', '👩‍👩‍👧‍👦', 'e\u0301', '🇩🇪', '\n', 'ש', '\u200d') })
    fc.assert(
      fc.property(text, fc.nat(60), fc.constantFrom('…', ''), (whole, max, mark) => {
        for (const short of [cut(whole, max, mark), cutStart(whole, max, mark)]) {
          expect(short.length).toBeLessThanOrEqual(max)
          expect(short).not.toMatch(/\p{Cs}/u)
        }
      }),
    )
  })
})

describe('printableJson', () => {
  it('parses to the same value and has no hidden character', () => {
    fc.assert(
      fc.property(fc.jsonValue(), anyText, (value, text) => {
        const json = printableJson({ value, text, [text]: 1 }, 2)
        expect(JSON.parse(json)).toEqual(JSON.parse(JSON.stringify({ value, text, [text]: 1 })))
        expect(visibleLines(json)).toBe(json)
      }),
      { numRuns: 1_000 },
    )
    expect(escapeJson('{"a":"\u202e\u{e0041}"}')).toBe('{"a":"\\u202e\\udb40\\udc41"}')
  })
})

describe('shellWord', () => {
  it('quotes what a shell would interpret', () => {
    expect(shellWord('alice.b-1:/x')).toBe('alice.b-1:/x')
    expect(shellWord('')).toBe("''")
    expect(shellWord('--yes')).toBe('--yes')
    expect(shellWord("it's; $(rm) `x`")).toBe("'it'\\''s; $(rm) `x`'")
    expect(shellWord("a\n\u202e'\\")).toBe("$'a\\x0a\\xe2\\x80\\xae\\'\\\\'")
    expect(shellWord('=x')).toBe("'=x'")
  })
})

describe('logOptions', () => {
  it('tell a warning that repeats at growing intervals, with the number of lines left out, and every other line each time', () => {
    let now = 0
    const told: unknown[][] = []
    const { logMethod } = logOptions(() => now).hooks
    const log = (level: number, ...args: unknown[]) =>
      logMethod.call(undefined, args, (...line: never[]) => void told.push([now, ...line]), level)
    for (; now <= 80_000; now += 1_000) log(40, { err: new Error('no stream') }, 'not deleted')
    const lasting = told.splice(0).map(([at, fields]) => [at, (fields as { repeated?: number }).repeated])
    expect(lasting).toEqual([
      [0, undefined],
      [10_000, 9],
      [30_000, 19],
      [70_000, 39],
    ])
    log(40, { err: new Error('no leader') }, 'not deleted')
    log(50, { err: new Error('no stream') }, 'not deleted')
    log(30, 'dispatcher takes requests')
    log(30, 'dispatcher takes requests')
    expect(told.splice(0)).toHaveLength(4)
    // It was over for longer than the last interval.
    now = 400_000
    log(40, { err: new Error('no stream') }, 'not deleted')
    now += 10_000
    log(40, { err: new Error('no stream') }, 'not deleted')
    expect(told).toHaveLength(2)
  })
})
