import { describe, expect, it } from 'vitest'
import { Histogram } from './histogram.js'
import { PassIndex } from './pass-index.js'
import { statsOf } from './stats.js'

describe('statistics', () => {
  it('tell quantiles within two percent', () => {
    const histogram = new Histogram()
    for (let ms = 1; ms <= 100_000; ms++) histogram.add(ms)
    for (const share of [0.01, 0.5, 0.9, 0.99, 1]) {
      const told = histogram.quantile(share) ?? 0
      expect(Math.abs(told - share * 100_000) / (share * 100_000)).toBeLessThan(0.02)
    }
    const small = new Histogram()
    expect(small.quantile(0.5)).toBeUndefined()
    for (const ms of [3, 3, 4]) small.add(ms)
    expect([small.quantile(0.5), small.quantile(0.99)]).toEqual([3, 4])
    small.add(1e15)
    expect(small.quantile(1)).toBeGreaterThan(1e9)
  })

  it('count by month, session, pair, status and error, the largest groups first', async () => {
    const index = new PassIndex(2)
    const put = (number: number, more: { code?: string; ended?: string; session_id?: string; created_at?: number }) =>
      index.put(
        {
          key: { originator: 'alice', subagent: number % 5 === 0 ? 'scout' : 'audit', id: `id-${number}` },
          session_id: `s-${number}`,
          status: 'returned',
          ended: 'completed',
          code: undefined,
          decided: '',
          created_at: Date.UTC(2026, 10, 30, 23, 59, 59),
          first: number,
          ended_at: Date.UTC(2026, 10, 30, 23, 59, 59) + 100,
          revision: number,
          ...more,
        },
        'live',
      )
    for (let number = 1; number <= 150; number++) put(number, {})
    put(151, { code: 'E011', ended: 'failed', session_id: 's-1', created_at: Date.UTC(2026, 11, 1) })
    const stats = await statsOf(index, {})
    expect(stats.passes).toBe(151)
    expect(stats.by.month.groups).toMatchObject([
      { name: '2026-11', count: 150, wall_ms: { count: 150, p50: 100 } },
      { name: '2026-12', count: 1 },
    ])
    expect(stats.by.pair.groups).toMatchObject([
      { name: 'alice->audit', count: 121 },
      { name: 'alice->scout', count: 30 },
    ])
    expect(stats.by.status.groups).toMatchObject([{ name: 'completed' }, { name: 'failed', count: 1 }])
    expect(stats.by.code.groups.map(({ name }) => name)).toEqual(['', 'E011'])
    expect(stats.by.session.groups[0]).toMatchObject({ name: 's-1', count: 2 })
    expect(stats.by.session.left_out).toBe(50)
    expect((await statsOf(index, { subagent: 'scout', code: 'E011' })).passes).toBe(0)
  })
})
