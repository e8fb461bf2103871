import { describe, expect, it } from 'vitest'
import { CheckBudget } from './budget.js'

describe('CheckBudget', () => {
  it('refuses one owner, then all, and neither once the window is over', () => {
    let now = 0
    const budget = new CheckBudget({ owner_ms: 100, total_ms: 250, window_ms: 1_000 }, () => now)
    budget.spend('evil', 101)
    expect(budget.refusal('evil')).toBeUndefined()
    budget.spend('evil', 3)
    expect(budget.refusal('evil')).toContain('the output_schema of evil used its 0.1 s')
    expect(budget.refusal('good')).toBeUndefined()
    budget.spend('other', 152)
    expect(budget.refusal('good')).toContain('all output schemas together')
    now = 1_000
    expect([budget.refusal('evil'), budget.refusal('good')]).toEqual([undefined, undefined])
  })

  it('charges nothing for quick checks, however many', () => {
    const budget = new CheckBudget({ owner_ms: 100, total_ms: 250, window_ms: 60_000 }, () => 0)
    for (let n = 0; n < 100_000; n++) budget.spend('fast', 0.3)
    expect(budget.refusal('fast')).toBeUndefined()
  })
})
