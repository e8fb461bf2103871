import { describe, expect, it } from 'vitest'
import { TokenBuckets } from './token-bucket.js'

describe('the rate of a token', () => {
  it('lets a burst through, then says how long to wait, and fills again', () => {
    const rates = new TokenBuckets({ per_second: 2, burst: 3 })
    expect([0, 0, 0].map((now) => rates.take('a', now).ok)).toEqual([true, true, true])
    expect(rates.take('a', 0)).toEqual({ ok: false, wait_ms: 500 })
    expect(rates.take('b', 0)).toEqual({ ok: true })
    expect(rates.take('a', 500)).toEqual({ ok: true })
    expect(rates.take('a', 500).ok).toBe(false)
    expect([60_000, 60_000, 60_000, 60_000].map((now) => rates.take('a', now).ok)).toEqual([true, true, true, false])
  })

  it('makes the next request wait longer after a large answer', () => {
    const rates = new TokenBuckets({ per_second: 2, burst: 3 })
    rates.take('a', 0)
    rates.charge('a', 5, 0)
    expect(rates.take('a', 0)).toEqual({ ok: false, wait_ms: 2_000 })
    expect(rates.take('a', 2_000)).toEqual({ ok: true })
  })
})
