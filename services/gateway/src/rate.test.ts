import { describe, expect, it } from 'vitest'
import { isLoopbackName } from './loopback.js'
import { Rates } from './rate.js'
import { waitOf } from './receive.js'

describe('the rate of a token', () => {
  it('lets a burst through, then says how long to wait, and fills again', () => {
    const rates = new Rates({ per_second: 2, burst: 3 })
    expect([0, 0, 0].map((now) => rates.take('a', now).ok)).toEqual([true, true, true])
    expect(rates.take('a', 0)).toEqual({ ok: false, wait_ms: 500 })
    expect(rates.take('b', 0)).toEqual({ ok: true })
    expect(rates.take('a', 500)).toEqual({ ok: true })
    expect(rates.take('a', 500).ok).toBe(false)
    expect([60_000, 60_000, 60_000, 60_000].map((now) => rates.take('a', now).ok)).toEqual([true, true, true, false])
  })

  it('makes the next request wait longer after a large answer', () => {
    const rates = new Rates({ per_second: 2, burst: 3 })
    rates.take('a', 0)
    rates.charge('a', 5, 0)
    expect(rates.take('a', 0)).toEqual({ ok: false, wait_ms: 2_000 })
    expect(rates.take('a', 2_000)).toEqual({ ok: true })
  })
})

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
    expect(waitOf(prefer, 60_000)).toBe(ms)
  })
})

describe('a loopback name', () => {
  it('is this machine’s own and nothing that begins so', () => {
    expect(['127.0.0.1', 'localhost', '::1', '[::1]', '127.9.9.9'].every(isLoopbackName)).toBe(true)
    expect(['0.0.0.0', '127.0.0.1.evil.example', 'localhost.evil.example', '10.0.0.1', '::'].some(isLoopbackName)).toBe(false)
  })
})
