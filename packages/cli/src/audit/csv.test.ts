import type { PassOverAuditEntry } from '@passover/schemas'
import { describe, expect, it } from 'vitest'
import { timeOption } from '../input/options.js'
import { CSV_HEAD, csvLine } from './csv.js'
import { monthOf, sessionFile } from './export-files.js'
import { SummaryBuilder } from './export-summary.js'

const entry = {
  pass_over_id: 'given-id-1',
  session_id: 's',
  timestamp: 0,
  originating_agent: 'alice',
  subagent: 'audit',
  reason: 'look',
  work_context_size_bytes: 5,
  expected_output_type: '',
  status: 'completed',
  artifacts_count: 0,
  files_modified_count: 0,
  issues_found_count: 0,
  returned: true,
  applied: false,
  policy_applied: 'default v1',
  policy_overrides: { timeout_ms: 5 },
  summary: 'fine',
} as PassOverAuditEntry

describe('an entry as CSV', () => {
  it('has a cell for each column, times as dates, and what has commas or quotes is quoted', () => {
    const line = csvLine({ ...entry, summary: 'a "b", c\nd' })
    expect(line).toContain('1970-01-01T00:00:00.000Z')
    expect(line).toContain('"a ""b"", c\nd"\r\n')
    expect(line).toContain('"{""timeout_ms"":5}"')
    expect(csvLine(entry).split(',').length).toBe(CSV_HEAD.split(',').length)
  })

  it('quotes what another separator than the comma would cut into cells', () => {
    for (const reason of ['a;=1+1', 'a\t=1+1']) expect(csvLine({ ...entry, reason })).toContain(`,"${reason}",`)
  })

  it.each(['=1+1', '+1', '-1', '@SUM(A1)', '\tx', '\n=1', '＝1', '=HYPERLINK("http://x","y")'])('%s is no formula', (text) => {
    const cells = csvLine({ ...entry, reason: text })
    expect(cells).toContain(`'${text.replaceAll('"', '""')}`)
    expect(cells).not.toMatch(/,[=+@\t]/)
  })
})

it('shows hidden characters in a cell', () => {
  expect(csvLine({ ...entry, reason: 'a\u202e\u001b[31m\r=1' })).toContain(',a<U+202E>␛[31m␍=1,')
  expect(csvLine({ ...entry, reason: '\r=1' })).toContain(',␍=1,')
})

describe('the file of a session', () => {
  it('has the documented columns', () => {
    expect(sessionFile('abc123')).toBe('session-abc123-passes.jsonl')
    expect(monthOf(Date.UTC(2024, 1, 29, 23, 59))).toBe('2024-02')
  })

  it('has a name of its own that leads nowhere else, whatever the session is called', () => {
    const hostile = [
      '..',
      '../..',
      'a/b',
      'a\\b',
      'A',
      'a',
      'ABC',
      'abc',
      '',
      ' ',
      'a b',
      'con',
      'é',
      '~none',
      '\0',
      'x'.repeat(10_000),
      'a_b',
      'A_b',
    ]
    const names = hostile.map((session) => sessionFile(session))
    expect(new Set(names.map((name) => name.toLowerCase())).size).toBe(hostile.length)
    for (const name of names) expect(name).toMatch(/^session-[a-z0-9_~-]{0,64}-passes\.jsonl$/)
    for (const name of names) expect(name.length).toBeLessThan(100)
  })
})

describe('the summary', () => {
  it('counts by month, session, pair, status and error, the largest first', () => {
    const summing = new SummaryBuilder()
    expect(summing.told()).toMatchObject({ passes: 0, wall_ms: { count: 0 } })
    summing.add({ entry, wall_ms: 10 })
    summing.add({ entry: { ...entry, timestamp: 9 }, wall_ms: 20 })
    summing.add({ entry: { ...entry, status: 'failed', session_id: 't' }, code: 'E011' })
    expect(summing.told()).toMatchObject({
      passes: 3,
      from: 0,
      to: 9,
      wall_ms: { count: 2, p50: 10, p99: 20 },
      by: {
        month: [{ name: '1970-01', count: 3 }],
        session: [
          { name: 's', count: 2 },
          { name: 't', count: 1 },
        ],
        pair: [{ name: 'alice->audit', count: 3 }],
        status: [{ name: 'completed' }, { name: 'failed' }],
        code: [{ name: 'E011', count: 1 }],
      },
    })
  })
})

describe('a time on the command line', () => {
  it('is how long ago, or a date', () => {
    const parse = timeOption('--since', () => 10_000_000)
    expect(parse('1h')).toBe(10_000_000 - 3_600_000)
    expect(parse('2026-11-28T14:30:05Z')).toBe(Date.UTC(2026, 10, 28, 14, 30, 5))
    expect(parse('2026-11-28')).toBe(new Date(2026, 10, 28).getTime())
    expect(parse('2028-02-29T00:00Z')).toBe(Date.UTC(2028, 1, 29))
    for (const wrong of ['soon', '5', '2026', '2026-13-45', '2026-02-30', '2026-02-29T10:00Z', '2026-04-31', ''])
      expect(() => parse(wrong), wrong).toThrow(/a duration before now/)
  })
})
