import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ago, duration, parseDuration } from './duration.js'
import { oneLine, plain } from './text.js'

function isControl(char: string): boolean {
  const code = char.codePointAt(0) ?? 0
  return (code < 32 && char !== '\n' && char !== '\t') || (code >= 127 && code < 160)
}

describe('text from agents', () => {
  it('never carries control characters to a terminal', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        for (const char of plain(text)) expect(isControl(char)).toBe(false)
        expect(oneLine(text)).not.toContain('\n')
      }),
    )
    expect(plain('\u001b[2Jgone\u001b]0;title\u0007')).toBe('[2Jgone]0;title')
  })

  it('is cut to the width', () => {
    expect(oneLine('abcdef', 4)).toBe('abc…')
    expect(oneLine('abcd', 4)).toBe('abcd')
  })
})

describe('durations', () => {
  it('are read with their unit only', () => {
    expect(parseDuration('30s')).toBe(30_000)
    expect(parseDuration('1.5m')).toBe(90_000)
    expect(parseDuration('250ms')).toBe(250)
    for (const text of ['30', 's', '-3s', '3 s s', '', '1e3s']) expect(parseDuration(text)).toBeUndefined()
  })

  it('are written as people read them', () => {
    expect([0, 999, 1_400, 90_000, 7_200_000, 400_000_000].map(duration)).toEqual(['0 ms', '999 ms', '1.4 s', '2 min', '2 h', '5 d'])
    expect(ago(10_000, 10_500)).toBe('now')
    expect(ago(10_000, 22_500)).toBe('12 s ago')
    expect(ago(20_000, 10_000)).toBe('now')
  })
})
