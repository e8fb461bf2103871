import type { Priority } from '@passover/schemas'
import { describe, expect, it } from 'vitest'
import { WeightedRoundRobin } from './weighted-round-robin.js'

const all = () => true
const count = (priorities: (Priority | undefined)[], priority: Priority) => priorities.filter((one) => one === priority).length

describe('Turns', () => {
  it('gives 8, 4 and 1 of 13 turns, spread out', () => {
    const turns = new WeightedRoundRobin()
    const taken = Array.from({ length: 13 }, () => turns.next(all))
    expect([count(taken, 'high'), count(taken, 'medium'), count(taken, 'low')]).toEqual([8, 4, 1])
    expect(taken.slice(0, 3)).toContain('medium')
  })

  it('gives all turns to the only priority with work, and no saved ones later', () => {
    const turns = new WeightedRoundRobin()
    for (let n = 0; n < 100; n++) expect(turns.next((priority) => priority === 'low')).toBe('low')
    const taken = Array.from({ length: 13 }, () => turns.next(all))
    expect(count(taken, 'low')).toBe(1)
    expect(turns.next(() => false)).toBeUndefined()
  })

  it('shares a number of places', () => {
    expect(new WeightedRoundRobin().share(26, all)).toEqual({ high: 16, medium: 8, low: 2 })
    expect(new WeightedRoundRobin().share(5, (priority) => priority === 'medium')).toEqual({ high: 0, medium: 5, low: 0 })
    expect(new WeightedRoundRobin().share(5, () => false)).toEqual({ high: 0, medium: 0, low: 0 })
  })
})
