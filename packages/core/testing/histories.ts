import { type DecisionFact, type EventFact, passRecord } from '@passover/schemas'
import { expect } from 'vitest'
import { auditRecord } from '../src/audit/audit-record.js'
import type { PassHistory } from '../src/journal/pass-history.js'
import { control, KEY, output, RULES, request, step, T0 } from './samples.js'

/** A pass as the stream tells it, whole, to be varied: for the unit tests of audit records and decisions. */

export const WORK = step('work', 12, { request: 10, requested_at: T0, digest: 'd'.repeat(64) })
export const RETURN = step('return', 15, { time: T0 + 700 })

export function decision(sequence: number, more: Partial<DecisionFact & { reason: string }> = {}): DecisionFact & { reason?: string } {
  return {
    type: 'decision',
    key: KEY,
    item: 'dispatch',
    person: 'bob',
    sequence,
    time: T0 + sequence,
    verdict: 'approve',
    digest: 'd'.repeat(64),
    ...more,
  }
}

export function event(kind: EventFact['kind'], sequence: number, body?: unknown): EventFact & { body?: unknown } {
  return { type: 'event', kind, key: KEY, sender: 'alice', sequence, time: T0 + sequence, body }
}

export function history(more: Partial<PassHistory> = {}): PassHistory {
  return {
    key: KEY,
    requests: [{ sequence: 10, time: T0 }],
    steps: [WORK, RETURN],
    decisions: [],
    events: [],
    request: request({ timeout_ms: 30_000 }),
    control: control({ request: request({ user_id: 'carol', trace_id: 'trace-1' }) }),
    returned: {
      v: 1,
      output: output({
        artifacts: [{ type: 'finding', severity: 'info', category: 'c', message: 'm' }],
        summary: { ...output().summary, findings: ['m'], issues_found: 1, files_modified: 2 },
      }),
    },
    ...more,
  }
}

export function record(more: Partial<PassHistory> = {}) {
  const told = auditRecord(history(more), RULES)
  expect(passRecord.parse(told)).toEqual(told)
  return told
}

export const refused = (code: 'E003' | 'E010' | 'E011' | 'E043') => ({ v: 1 as const, error: { code, message: 'because' } })
export const system = (code: 'E003' | 'E010' | 'E011' | 'E043', sequence = 15) =>
  step('return', sequence, { by: 'passover', attempt: 0, code, time: T0 + 900, requested_at: T0, digest: 'd'.repeat(64) })
