import { describe, expect, it } from 'vitest'
import { nextRetry } from './retry.js'

const waits = { first_wait_ms: 1_000, longest_wait_ms: 300_000, give_up_ms: 86_400_000, least_tries: 10 }

describe('waiting for a receiver', () => {
  it('doubles up to the longest wait, or is what the receiver asks for', () => {
    expect([1, 2, 3, 9, 10, 100].map((tries) => nextRetry(tries, 0, waits))).toEqual(
      [1_000, 2_000, 4_000, 256_000, 300_000, 300_000].map((wait_ms) => ({ wait_ms })),
    )
    expect(nextRetry(1, 0, { ...waits, asked_ms: 60_000 })).toEqual({ wait_ms: 60_000 })
    expect(nextRetry(1, 0, { ...waits, asked_ms: 9_999_999 })).toEqual({ wait_ms: 300_000 })
  })

  it('ends when time and tries are used up, not when only one is', () => {
    expect(nextRetry(9, 86_400_000, waits)).toEqual({ wait_ms: 256_000 })
    expect(nextRetry(500, 86_399_999, waits)).toEqual({ wait_ms: 300_000 })
    expect(nextRetry(10, 86_400_000, waits)).toEqual({ give_up: true })
  })
})
