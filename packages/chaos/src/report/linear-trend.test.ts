import { describe, expect, it } from 'vitest'
import { seededRandom } from '../seeded-random.js'
import { linearTrend, type Sample } from './linear-trend.js'

const MINUTE = 60_000
const series = (value: (n: number) => number): Sample[] => Array.from({ length: 60 }, (_, n) => ({ at: n * MINUTE, value: value(n) }))

describe('a trend', () => {
  it('is one of growth where something leaks, noise or not', () => {
    const { between } = seededRandom(1)
    const found = linearTrend(
      series((n) => 100 + n * 2 + between(-15, 15)),
      10,
    )
    expect(found?.grows).toBe(true)
    expect(found?.per_hour).toBeGreaterThan(90)
    expect(found?.per_hour).toBeLessThan(150)
  })

  it.each<[string, (n: number) => number]>([
    ['stands still', () => 100],
    ['saws', (n) => 100 + (n % 10) * 5],
    ['warms up and stays', (n) => Math.min(n, 12) * 20],
    ['falls', (n) => 200 - n],
    ['rises by less than counts', (n) => 1_000 + n],
  ])('is none where it %s', (_, value) => {
    expect(linearTrend(series(value), 10)?.grows).toBe(false)
  })

  it('is not told of a handful', () => {
    expect(linearTrend(series((n) => n).slice(0, 9), 1)).toBeUndefined()
  })
})
