import { type PassResult, statusLabel } from '@passover/operator'
import type { AnsweredPass, PassRow, WorkOutput } from '@passover/schemas'
import picocolors from 'picocolors'
import { describe, expect, it } from 'vitest'
import { renderPassRows, statusColor } from './pass-rows.js'
import { renderOutput, renderResult } from './result.js'
import { entryText, renderPass, renderTimeline } from './timeline.js'

const colors = picocolors.createColors(false)
const row: PassRow = {
  originator: 'alice',
  subagent: 'audit',
  id: '0abcdefg00lx1y2z3_AAAAAAAAAAAAAA',
  status: 'processed',
  reason: 'review',
  priority: 'medium',
  created_at: 1_000,
  ended_at: 2_400,
  output_status: 'completed',
  last_sequence: 3,
  chain_depth: 1,
}

describe('the table of passes', () => {
  it('shows whole ids and never wraps a row', () => {
    const text = renderPassRows([row, { ...row, reason: 'line\nbreak \u001b[31m' }], 5_000, { colors, columns: undefined })
    const lines = text.split('\n')
    expect(lines).toHaveLength(3)
    expect(lines[1]).toContain(row.id)
    expect(lines[2]).toContain('line break ␛[31m')
    expect(lines[1]).toContain('1.4 s')
  })

  it('cuts the reason, and only that, on a narrow terminal', () => {
    const text = renderPassRows([{ ...row, reason: 'r'.repeat(200) }], 5_000, { colors, columns: 120 })
    for (const line of text.split('\n')) expect(line.length).toBeLessThanOrEqual(120)
    expect(text).toContain(row.id)
    expect(text).toContain('…')
  })

  it('leaves columns out on a terminal of 60 columns, and says which; where that is not enough each row is a block', () => {
    const wide = renderPassRows([{ ...row, reason: 'r'.repeat(200), subagent: 'audit' }], 5_000, { colors, columns: 80 })
    for (const line of wide.split('\n')) expect(line.length, line).toBeLessThanOrEqual(80)
    expect(wide).toMatch(/Columns not shown \(narrow terminal\): .*TOOK.*; --json prints all\.$/)
    const block = renderPassRows([{ ...row, originator: 'a'.repeat(40) }], 5_000, { colors, columns: 60 })
    expect(block).toContain(`ID        ${row.id}\nSTATUS    `)
    for (const line of block.split('\n')) expect(line.length, line).toBeLessThanOrEqual(60)
  })

  it('says of what ended how, and of what is open that it lasts', () => {
    expect(statusLabel({ status: 'refused', code: 'E003' })).toBe('refused E003')
    expect(statusLabel({ status: 'returned', output_status: 'failed' })).toBe('returned (failed)')
    const { ended_at: _ended, output_status: _status, ...rest } = row
    expect(renderPassRows([{ ...rest, status: 'waiting_for_return' }], 61_000, { colors, columns: undefined })).toContain('1 min…')
  })
})

describe('one pass', () => {
  const pass: AnsweredPass = {
    key: { originator: 'alice', subagent: 'audit', id: row.id },
    status: 'processed',
    row,
    decisions: [
      {
        item: 'apply',
        person: 'bob',
        verdict: 'approve',
        digest: 'd',
        sequence: 9,
        time: 3_000,
        modifications: { x: 'taken', y: 'rejected' },
      },
    ],
    control: { ancestors: ['root', 'alice'], max_chain_depth: 3 },
    history: [
      { sequence: 1, time: 1_000, kind: 'request', by: 'alice' },
      { sequence: 2, time: 1_012, kind: 'work', by: 'medium' },
      { sequence: 3, time: 2_400, kind: 'return', by: 'audit', detail: 'completed' },
      { sequence: 4, time: 2_500, kind: 'return', by: 'audit', ignored: 'a second return' },
    ],
  }

  it('tells chain, times between, decisions, and what is ignored', () => {
    const text = renderPass(
      pass,
      { output: { status: 'completed', subagent_id: 'audit' } as WorkOutput },
      { colors, columns: undefined, person: 'maria', now: 5_000 },
    )
    expect(text).toContain('root → alice → audit (depth 1 of 3)')
    expect(text).toMatch(/\+12 ms {2}work/)
    expect(text).toContain('ignored: a second return')
    expect(text).toContain('apply: approved by bob')
    expect(text).toContain('(1 approved, 1 rejected)')
  })

  it('says of a decision whether it counts, and where nobody judged it only that it was made', () => {
    const decision = { sequence: 3, time: 1_100, kind: 'decision', by: 'newcomer', detail: 'dispatch approve' }
    const refused = { ...decision, counts: false, why: 'takes part in the pass' }
    const text = renderPass({ ...pass, history: [refused] }, undefined, { colors, columns: undefined, person: 'maria', now: 5_000 })
    expect(text).toContain('newcomer tried to approve the start: not valid (takes part in the pass)')
    expect(entryText({ ...decision, counts: true })).toBe('newcomer approves the start')
    expect(entryText(decision)).toBe('newcomer decides: dispatch approve')
  })

  it('calls an undo by its name, and the digest of the request so', () => {
    const undo = { sequence: 5, time: 2_600, kind: 'applied', by: 'maria', detail: '1 undone', unverified: true as const }
    const text = renderPass({ ...pass, digest: 'abc', history: [undo] }, undefined, {
      colors,
      columns: undefined,
      person: 'maria',
      now: 5_000,
    })
    expect(text).toMatch(/undone {7}maria \(unverified\) undid the application/)
    expect(text).toContain('request digest abc')
  })

  it('shows the stack of what threw, and what was no output, bounded', () => {
    const shown = (error: PassResult) => renderPass(pass, error, { colors, columns: undefined, person: 'maria', now: 5_000 })
    const stack = 'Error: no such table\n    at work (/a/b.js:3:4)'
    expect(shown({ error: { code: 'E011', message: 'no such table', details: { stack } } })).toContain('at work (/a/b.js:3:4)')
    const text = shown({ error: { code: 'E021', message: 'no output' }, raw_output: { status: 'x'.repeat(5_000) } })
    expect(text).toContain('{"status":"xxx')
    expect(text.length).toBeLessThan(3_000)
  })

  it('shows a message to its originator alone to that one, and to nobody else', () => {
    const message = { type: 'message', role: 'internal', content: 'between us', visibility: 'originator_only' } as const
    const shownTo = (person: string) =>
      renderPass(
        pass,
        { output: { status: 'completed', artifacts: [message] } as unknown as WorkOutput },
        { colors, columns: undefined, person, now: 5_000 },
      )
    expect(shownTo('alice')).toContain('between us')
    expect(shownTo('maria')).toContain('(a message that only the originator can read)')
    expect(shownTo('maria')).not.toContain('between us')
  })

  it('lists the passes below, oldest first', () => {
    const child = (id: string, more: Partial<PassRow>): PassRow => ({ ...row, originator: 'audit', subagent: 'scout', id, ...more })
    const below = [child('second-child', { status: 'timed_out', code: 'E010' }), child('first-child0', {})]
    const text = renderPass({ ...pass, below, below_more: true }, undefined, { colors, columns: undefined, person: 'maria', now: 5_000 })
    expect(text).toMatch(/Child passes\n.*omitted.*\n {2}first-child0 {2}→ scout.*\n {2}second-child {2}→ scout .*timed.out.*E010/)
  })

  it('puts the error first', () => {
    const text = renderPass(
      { ...pass, row: { ...row, status: 'refused', code: 'E003' } },
      { error: { code: 'E003', message: 'alice → audit → alice' } },
      { colors, columns: undefined, person: 'maria', now: 5_000 },
    )
    expect(text.indexOf('E003 alice → audit')).toBeLessThan(text.indexOf('Timeline'))
  })
})

describe('an output', () => {
  it('shows findings once, changes with their size, and text', () => {
    const text = renderOutput(
      {
        status: 'completed',
        subagent_id: 'audit',
        artifacts: [
          { type: 'finding', severity: 'error', category: 'c', message: 'TS2551 wrong', location: { path: 'a.ts', line: 3, column: 4 } },
          { type: 'file_modification', path: 'a.ts', old_content: 'a\nb\n', new_content: 'a\nc\nd\n', reason: 'why', confidence: 'high' },
        ],
        summary: {
          decision: 'needs_modification',
          findings: ['a.ts:3 TS2551 wrong', 'and more'],
          files_modified: 1,
          files_reviewed: 1,
          issues_found: 1,
          time_elapsed_ms: 5,
        },
        output: 'the text',
      },
      { colors },
    )
    expect(text).toContain('a.ts:3:4  TS2551 wrong')
    expect(text.match(/TS2551/g)).toHaveLength(1)
    expect(text).toContain('and more')
    expect(text).toContain('+2 -1')
    expect(text).toContain('the text')
  })
})

describe('every kind of entry and artifact', () => {
  it('has words', () => {
    const kinds = [
      'request',
      'held',
      'work',
      'fence',
      'return',
      'decision',
      'started',
      'progress',
      'applied',
      'cancel',
      'late',
      'dead_letter',
      'violation',
      'unheard',
    ]
    for (const kind of kinds) expect(entryText({ kind, by: 'audit', attempt: 2 }), kind).not.toBe('')
    expect(entryText({ kind: 'return', by: 'passover', detail: 'E010' })).toBe('ended by passover: E010')
    expect(renderTimeline([], { colors })).toContain('nothing stored')
  })

  it('has a line', () => {
    const text = renderOutput(
      {
        status: 'partial',
        completion_reason: 'ran out of time',
        artifacts: [
          { type: 'finding', severity: 'warning', category: 'c', message: 'a warning' },
          { type: 'finding', severity: 'info', category: 'c', message: 'a remark', location: { path: 'b.ts' } },
          { type: 'decision', id: 'd', question: 'Safe?', answer: 'yes', reasoning: 'tried' },
          { type: 'message', role: 'assistant', content: 'a message', visibility: 'user_visible' },
          { type: 'tool_result', tool_name: 'tsc', call_id: 'c', input: {}, output: 'ok', status: 'success' },
        ],
        summary: {
          findings: [],
          recommendations: ['do it'],
          files_modified: 0,
          files_reviewed: 0,
          issues_found: 0,
          time_elapsed_ms: 1,
          generated_summary: 'in short',
        },
      },
      { colors },
    )
    for (const line of [
      '! partial by ?',
      'ran out of time',
      'a warning',
      'b.ts  a remark',
      'Safe? yes: tried',
      'a message',
      'tsc: success, 2 characters',
      '→ do it',
      'in short',
    ])
      expect(text).toContain(line)
    expect(renderOutput({ status: 'failed' }, { colors })).toBe('✗ failed by ?')
    expect(renderResult({ unreadable: 'no' }, { colors })).toContain('cannot be read')
  })

  it('is coloured where it may be', () => {
    const bright = picocolors.createColors(true)
    for (const status of ['refused', 'held', 'requested', 'processed']) expect(statusColor({ status }, bright)('x')).not.toBe('x')
  })
})
