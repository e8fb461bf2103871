import { describe, expect, it } from 'vitest'
import { ago, duration, parseDuration } from './duration.js'

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
