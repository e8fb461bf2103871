import { describe, expect, it } from 'vitest'
import { parsePreferWait } from './parse-request.js'

describe('Prefer: wait', () => {
  it.each([
    [null, 0],
    ['wait=30', 30_000],
    ['respond-async, wait=5', 5_000],
    ['wait="7"', 7_000],
    ['wait=99999', 60_000],
    ['wait=-1', 0],
    ['await=3', 0],
  ])('%s is %d ms', (prefer, ms) => {
    expect(parsePreferWait(prefer, 60_000)).toBe(ms)
  })
})
