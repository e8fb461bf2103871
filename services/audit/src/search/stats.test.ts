import type { PassFilter } from '@passover/schemas'
import { describe, expect, it } from 'vitest'
import { Histogram } from './histogram.js'
import { PassIndex } from './index/pass-index.js'
import { statsOf } from './stats.js'

const nobody = { has: () => false }

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
          returned: number + 1_000,
          revision: number,
          ...more,
        },
        'live',
      )
    for (let number = 1; number <= 150; number++) put(number, {})
    put(151, { code: 'E011', ended: 'failed', session_id: 's-1', created_at: Date.UTC(2026, 11, 1) })
    const stats = await statsOf(index, {}, nobody)
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
    expect((await statsOf(index, { subagent: 'scout', code: 'E011' }, nobody)).passes).toBe(0)
  })

  // Fails where statistics count by the record alone: it does not say whether its return was taken.
  it('count what was acknowledged as processed, and as delivered although it was late, as a query tells it', async () => {
    const index = new PassIndex(2)
    const put = (number: number, more: { code?: string } = {}) =>
      index.put(
        {
          key: { originator: 'alice', subagent: 'audit', id: `id-${number}` },
          session_id: 's',
          status: 'returned',
          ended: 'completed',
          code: undefined,
          decided: '',
          created_at: 1_000,
          first: number,
          ended_at: 2_000,
          returned: number + 100,
          revision: number,
          ...more,
        },
        'live',
      )
    for (const number of [1, 2, 3]) put(number)
    for (const number of [4, 5]) put(number, { code: 'E022' })
    const acknowledged = {
      // As where the bucket has to be asked.
      has: (name: string, sequence: number) => (sequence === 104 ? Promise.resolve(name === 'alice') : [101, 102].includes(sequence)),
    }
    const passes = async (filter: PassFilter) => (await statsOf(index, filter, acknowledged)).passes
    expect([await passes({ status: 'returned' }), await passes({ status: 'processed' }), await passes({ status: 'completed' })]).toEqual([
      2, 3, 5,
    ])
    expect([await passes({ code: 'E022' }), await passes({ code: 'E022', status: 'processed' })]).toEqual([1, 0])
    const { by, wall_ms } = await statsOf(index, {}, acknowledged)
    expect(by.code.groups.map(({ name, count }) => [name, count])).toEqual([
      ['', 4],
      ['E022', 1],
    ])
    expect(wall_ms.count).toBe(5)
  })
})
