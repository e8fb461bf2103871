import type { Step } from '@passover/schemas'
import { describe, expect, it } from 'vitest'
import { attemptStatus, type RunningAttempt } from './attempt-status.js'

const key = { originator: 'alice', subagent: 'audit', id: 'pass-00000001' }
const RULES = { id_window_ms: 3_600_000, trust_fences: true }
const RUN: RunningAttempt = { key, attempt: 2, guard: 11, nonce: 'mine' }
const guard = { subject: '*.alice.audit.pass-00000001.*', sequence: 11 }
const step = (kind: Step['kind'], by: string, sequence: number, rest: Partial<Step> = {}): Step => ({
  type: 'step',
  kind,
  key,
  by,
  sequence,
  time: 1_000,
  guard,
  attempt: 0,
  ...rest,
})
const bounced = (kind: Step['kind'], by: string, sequence: number): Step => {
  const { guard: _, ...rest } = step(kind, by, sequence)
  return { ...rest, untrusted: 'the server published it' }
}
const BEFORE = [step('work', 'medium', 10), step('fence', 'audit', 11, { attempt: 2, nonce: 'mine' })]
const judge = (...newer: Step[]) => attemptStatus(RUN, [...newer, ...BEFORE], RULES)

describe('since an attempt began', () => {
  it('nothing changed where only steps came that count for nothing: the guard goes behind them', () => {
    expect(judge()).toEqual({ kind: 'unchanged', last: 11 })
    for (const [kind, by] of [
      ['return', 'audit'],
      ['return', 'passover'],
      ['fence', 'audit'],
      ['held', 'passover'],
      ['work', 'low'],
    ] as const)
      expect(judge(bounced(kind, by, 20)), kind).toEqual({ kind: 'unchanged', last: 20 })
    const late = [
      step('fence', 'audit', 21, { attempt: 2, nonce: 'other' }),
      step('return', 'audit', 22, { attempt: 1 }),
      step('held', 'passover', 23),
    ]
    expect(judge(...late, step('return', 'mallory', 24, { attempt: 2 }))).toEqual({ kind: 'unchanged', last: 24 })
  })

  it('sees the newest attempt, an end, and its own return, with any other steps stored between', () => {
    expect(judge(bounced('fence', 'audit', 20), step('fence', 'audit', 21, { attempt: 3 }))).toEqual({ kind: 'newer_attempt' })
    expect(judge(step('return', 'audit', 21, { attempt: 3 }))).toEqual({ kind: 'newer_attempt' })
    const end = step('return', 'passover', 22, { code: 'E010' })
    expect(judge(bounced('return', 'audit', 20), end)).toEqual({ kind: 'ended', step: end })
    expect(judge(bounced('held', 'passover', 20), step('return', 'audit', 23, { attempt: 2, nonce: 'mine' }))).toEqual({ kind: 'returned' })
    const other = step('return', 'audit', 24, { attempt: 2, nonce: 'other' })
    expect(judge(other)).toEqual({ kind: 'ended', step: other })
  })
})
