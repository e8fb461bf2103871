import type { WorkControl } from '@passover/schemas'
import { describe, expect, it } from 'vitest'
import { event, RETURN, record, WORK } from '../../testing/histories.js'
import { control, KEY, output, request, step, T0, timedId } from '../../testing/samples.js'

describe('the fields of an audit record', () => {
  it('tells who applied what', () => {
    const body = { v: 1, applied_by: 'bob', applied_at: T0 + 5_000, applied: ['a.ts'], rejected: ['b.ts'] }
    expect(record({ events: [{ ...event('applied', 20, body), sender: 'bob' }] })).toMatchObject({
      sequences: { last: 20 },
      entry: { applied: true, applied_by: 'bob' },
      metadata: { applied: true, applied_by: 'bob', applied_at: T0 + 5_000 },
    })
    expect(record({ events: [event('applied', 20, { ...body, applied: [] })] }).entry?.applied).toBe(false)
    expect(record({ events: [event('applied', 20, body), event('applied', 21, 'nonsense')] }).entry?.applied).toBe(true)
  })

  it('names late outputs and violations', () => {
    const told = record({ steps: [WORK, RETURN, step('return', 17), step('fence', 18)], events: [event('late', 19)] })
    expect(told).toMatchObject({
      sequences: { late: [19], fences: [18], last: 19 },
      violations: [
        { sequence: 17, what: 'a second return' },
        { sequence: 18, what: 'a fence after the return' },
      ],
    })
  })

  it('takes the summary from what says most', () => {
    const of = (more: Parameters<typeof output>[0]) => record({ returned: { v: 1, output: output(more) } }).entry?.summary
    expect(of({ summary: { ...output().summary, generated_summary: 'in short' }, completion_reason: 'done', output: 'text' })).toBe(
      'in short',
    )
    expect(of({ completion_reason: 'done', output: 'text' })).toBe('done')
    expect(of({ summary: { ...output().summary, findings: ['a', 'b'] } })).toBe('a; b')
    expect(of({ output: 'x'.repeat(5_000) })).toBe('x'.repeat(2_000))
    expect(of({})).toBe('')
  })

  it('takes the overrides of the control frame', () => {
    const asked = request({ override: { timeout_ms: 5_000, auto_return: true }, timeout_ms: 7_000, auto_apply_on_success: false })
    const told = record({ request: asked, control: control({ request: asked }) })
    expect(told.entry?.policy_overrides).toEqual({ timeout_ms: 5_000, auto_return: true, auto_apply: false })
  })

  it('tells a child, and a retry', () => {
    const child: WorkControl = {
      ...control(),
      parent: { ...KEY, id: timedId(T0, 'parent00000000') },
      retry_of: 'earlier-id',
      expected_output_type: 'mixed',
    }
    expect(record({ control: child })).toMatchObject({
      parent: child.parent,
      retry_of: 'earlier-id',
      entry: { expected_output_type: 'mixed' },
      metadata: { retry_of: 'earlier-id' },
    })
  })
})
