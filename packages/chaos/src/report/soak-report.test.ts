import { describe, expect, it } from 'vitest'
import { type Measure, type Series, soakReport } from './soak-report.js'

const series = (who: string, pid: number, measure: Measure, values: number[]): Series => ({
  who,
  pid,
  measure,
  samples: values.map((value, n) => ({ at: n * 5_000, value })),
})
const steady = (value: number, count = 36) => Array.from({ length: count }, () => value)
const rising = (from: number, by: number, count = 36) => Array.from({ length: count }, (_, n) => from + n * by)

describe('a soak', () => {
  it('says that nothing grows, with the figures of everybody, servers too', () => {
    const { lines, grows, minutes } = soakReport(
      [
        series('audit', 7, 'memory MiB', steady(80)),
        series('audit', 7, 'descriptors', steady(31)),
        series('server n1', 9, 'consumers', steady(14)),
        series('server n1', 9, 'messages', rising(10, 100)),
      ],
      36,
    )
    expect(grows).toEqual([])
    expect(minutes).toBeCloseTo(2.9, 1)
    expect(lines[0]).toBe('2 processes and servers watched for 2.9 min: nothing grows.')
    expect(lines.join('\n')).toContain('| audit | 1 | 80 → 80 | 31 → 31 |  |  |  |  |  |  |')
    expect(lines.join('\n')).toContain('| 14 → 14 | 10 → 3510 |')
  })

  it('names what rises, and that a short one cannot tell it from warming up', () => {
    const short = soakReport([series('worker 1', 7, 'memory MiB', rising(50, 3))], 36)
    expect(short.grows).toEqual(['worker 1 (7) memory MiB'])
    expect(short.lines.join('\n')).toMatch(
      /1 of 1 measures rise:\n- worker 1 \(7\) memory MiB: 77 → 155, 2160 an hour \(fit 1.00\)\n.*may be warming up/,
    )
    const long = soakReport([series('worker 1', 7, 'memory MiB', rising(50, 3, 200))], 200)
    expect(long.lines.join('\n')).not.toContain('warming up')
  })

  it('has a row also for who never lived long enough for a trend: his longest life', () => {
    const { lines } = soakReport([series('bob', 7, 'memory MiB', steady(60, 2)), series('bob', 8, 'memory MiB', steady(70, 5))], 5)
    expect(lines.join('\n')).toContain('| bob | 2 | 70 → 70 |')
  })
})
