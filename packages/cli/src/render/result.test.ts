import type { WorkArtifact, WorkOutput } from '@passover/schemas'
import picocolors from 'picocolors'
import { describe, expect, it } from 'vitest'
import { renderOutput, renderResult } from './result.js'

const colors = picocolors.createColors(false)
const summary = { findings: [], files_modified: 0, files_reviewed: 0, issues_found: 0, time_elapsed_ms: 1 }
const FINDING = { type: 'finding', severity: 'warning', category: 'logic_error', message: 'it subtracts' } as const
const DECISION = { type: 'decision', id: 'd', question: 'Safe?', answer: 'no', reasoning: 'a sign' } as const
const SECRET = { type: 'message', role: 'internal', content: 'between us', visibility: 'originator_only' } as const

const shown = (artifact: WorkArtifact, view = {}) =>
  renderOutput({ status: 'completed', artifacts: [artifact], summary }, { colors, ...view })
    .split('\n')
    .slice(1)

/** Fields of artifacts that are for whoever reads them. */
describe('an artifact', () => {
  it('of a finding says its category, and what would mend it', () => {
    expect(shown(FINDING)).toEqual(['  warning  it subtracts  logic_error'])
    expect(shown({ ...FINDING, suggested_fix: 'a + b' })).toEqual(['  warning  it subtracts  logic_error', '    fix: a + b'])
  })

  it('of a decision says what else was considered', () => {
    expect(shown(DECISION)).toEqual(['  decided  Safe? no: a sign'])
    expect(shown({ ...DECISION, alternatives_considered: ['wait', 'ask'] })).toEqual([
      '  decided  Safe? no: a sign (considered: wait; ask)',
    ])
  })

  it('of a message to the originator alone is shown to nobody else', () => {
    expect(shown({ ...SECRET, visibility: 'user_visible' })).toEqual(['  between us'])
    expect(shown(SECRET, { as: 'originator' })).toEqual(['  between us'])
    expect(shown(SECRET)).toEqual(['  (a message that only the originator can read)'])
    expect(
      renderResult({ output: { status: 'completed', artifacts: [SECRET], summary } as unknown as WorkOutput }, { colors }),
    ).not.toContain('between us')
  })
})
