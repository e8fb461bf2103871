import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { columnsOf, cutColumns, wrap } from './wrap.js'

/** Columns that no terminal takes fewer than: stated without the module's own tables. */
function leastColumns(text: string): number {
  const wide =
    text.match(/[\p{Script=Han}\p{Script=Hangul}\p{Script=Hiragana}\uff01-\uff60]|(?!\p{ASCII})\p{Emoji_Presentation}/gu)?.length ?? 0
  return [...text.replace(/\p{M}/gu, '')].length + wide
}

const STYLE = new RegExp(`${'\u001b'}\\[\\d+m`, 'g')
const red = (text: string) => `\u001b[31m${text}\u001b[39m`
const unit = fc.constantFrom(
  'a',
  ' ',
  '│',
  '字',
  '한',
  '😀',
  '👩‍👩‍👧‍👦',
  'e\u0301',
  `a${'\u0301'.repeat(40)}`,
  'é',
  'ш',
  '→',
  '+',
  '-',
  'objective',
)
const line = fc.string({ unit, maxLength: 300 })

describe('lines that are longer than a terminal is wide', () => {
  it('are continued by marked lines, deeper than their own, at a space where one is near', () => {
    expect(wrap('  reason   a', 12)).toBe('  reason   a')
    expect(wrap(`  reason     ${'a'.repeat(30)} objective x`, 40)).toBe(`  reason     ${'a'.repeat(27)}\n      │ aaa objective x`)
    expect(wrap('the words of a sentence that goes on', 24)).toBe('the words of a sentence \n    │ that goes on')
    expect(wrap(`+${'x'.repeat(39)}-y\n+z`, 40)).toBe(`+${'x'.repeat(39)}\n    │ -y\n+z`)
    // An id that fits a line is not broken.
    expect(wrap(`  application of the changes  ${'i'.repeat(32)}  a → b`, 60)).toBe(
      `  application of the changes  \n      │ ${'i'.repeat(32)}  a → b`,
    )
    // What is left of a line that was broken at a space can be too long for the next word, too.
    expect(wrap('aae\u0301 a👩‍👩‍👧‍👦', 13)).toBe('aae\u0301 \n│ a\n│ 👩‍👩‍👧‍👦')
    expect(wrap('字'.repeat(9), 17)).toBe(`${'字'.repeat(8)}\n│ 字`)
    expect(wrap(`${red('x'.repeat(30))}y`, 30)).toBe(`\u001b[31m${'x'.repeat(30)}\u001b[39m\n    │ y`)
  })

  it('fit, keep every character, and begin with the mark', () => {
    fc.assert(
      fc.property(line, fc.integer({ min: 8, max: 100 }), fc.boolean(), (text, columns, styled) => {
        const [first = '', ...rest] = wrap(styled ? red(text) : text, columns)
          .replaceAll(STYLE, '')
          .split('\n')
        const continued = rest.map((row) => row.replace(/^ *│ /, ''))
        for (const row of [first, ...rest]) expect(leastColumns(row)).toBeLessThanOrEqual(columns)
        for (const row of rest) expect(row).toMatch(/^ *│ /)
        expect([first, ...continued].join('')).toBe(text)
      }),
    )
  })

  it('are cut to their columns where they must not be continued', () => {
    expect(cutColumns('字字字字', 8)).toBe('字字字字')
    expect(cutColumns('字字字字', 7)).toBe('字字字…')
    expect(cutColumns('abc', 1)).toBe('…')
    expect(cutColumns('abc', 0)).toBe('')
    fc.assert(
      fc.property(line, fc.nat(60), (text, columns) => {
        expect(columnsOf(cutColumns(text, columns))).toBeLessThanOrEqual(columns)
        expect(leastColumns(text)).toBeLessThanOrEqual(columnsOf(text))
      }),
    )
  })
})
