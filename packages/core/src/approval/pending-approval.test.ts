import type { EffectivePolicy, RecordedDecision, WorkOutput } from '@passover/schemas'
import { describe, expect, it } from 'vitest'
import { control, output, RULES, step, T0 } from '../../testing/samples.js'
import { foldJournal } from '../journal/state-machine.js'
import { approvalDeadline, pendingApproval } from './pending-approval.js'

const DAY = 86_400_000
const CHANGE = {
  type: 'file_modification' as const,
  path: 'a.ts',
  old_content: 'a',
  new_content: 'b',
  reason: 'because',
  confidence: 'high' as const,
}
const HELD = step('held', 11, { time: T0 + 10, expires_ms: 5_000 })
const WORK = step('work', 12, { time: T0 + 20 })
const RETURN = step('return', 15, { time: T0 + 700 })

function decision(item: string, verdict: 'approve' | 'deny', time: number): RecordedDecision {
  return { item, verdict, person: 'maria', digest: 'd', sequence: 20, time, counts: true }
}

function awaits(more: { steps?: (typeof HELD)[]; output?: WorkOutput; policy?: Partial<EffectivePolicy>; decisions?: RecordedDecision[] }) {
  const { journal } = foldJournal(more.steps ?? [WORK, RETURN], RULES)
  const asked = control()
  const policy = { ...asked.policy, ...more.policy }
  return pendingApproval({ journal, control: { policy }, output: more.output, decisions: more.decisions ?? [] })
}

const partial = output({ status: 'partial' })
const changing = output({ artifacts: [CHANGE] })
const partlyChanging = output({ status: 'partial', artifacts: [CHANGE] })

describe('what of a pass waits for a person', () => {
  it('is the dispatch while it is held and nobody decided, until the held step says', () => {
    expect(awaits({ steps: [HELD] })).toEqual({ item: 'dispatch', since: T0 + 10, expires_at: T0 + 5_010 })
    expect(awaits({ steps: [HELD], decisions: [decision('dispatch', 'approve', T0 + 11)] })).toBeUndefined()
    expect(awaits({ steps: [HELD], decisions: [{ ...decision('dispatch', 'approve', T0 + 11), counts: false }] })).toBeDefined()
    expect(awaits({ steps: [HELD, WORK] })).toBeUndefined()
  })

  it('is the release of a return that no condition delivers, from the return on', () => {
    expect(awaits({ output: partial })).toEqual({ item: 'return', since: T0 + 700, expires_at: T0 + 700 + DAY })
    expect(awaits({ output: partial, policy: { approval_expires_ms: 9 } })?.expires_at).toBe(T0 + 709)
    expect(awaits({ output: partial, policy: { auto_return: true } })).toBeUndefined()
    expect(awaits({ output: partial, decisions: [decision('return', 'approve', T0 + 800)] })).toBeUndefined()
    expect(awaits({ output: output() })).toBeUndefined()
  })

  it('is the application of modifications, once the output is released and where policy wants an approval', () => {
    expect(awaits({ output: changing })).toEqual({ item: 'apply', since: T0 + 700, expires_at: T0 + 700 + DAY })
    expect(awaits({ output: changing, policy: { require_user_approval: false } })).toBeUndefined()
    expect(awaits({ output: changing, decisions: [decision('apply', 'deny', T0 + 900)] })).toBeUndefined()
    expect(awaits({ output: partlyChanging })?.item).toBe('return')
    const released = awaits({ output: partlyChanging, decisions: [decision('return', 'approve', T0 + 800)] })
    expect(released).toEqual({ item: 'apply', since: T0 + 800, expires_at: T0 + 800 + DAY })
    expect(awaits({ output: partlyChanging, decisions: [decision('return', 'deny', T0 + 800)] })).toBeUndefined()
  })

  it('is nothing of a pass that the system ended, or whose control frame is unknown', () => {
    const { journal } = foldJournal([WORK, RETURN], RULES)
    expect(awaits({ steps: [WORK, step('return', 15, { by: 'passover', attempt: 0, code: 'E010' })] })).toBeUndefined()
    expect(pendingApproval({ journal, output: partial, decisions: [] })).toBeUndefined()
  })
})

describe('until when a decision counts', () => {
  it('has no end for what has no expiry', () => {
    const { journal } = foldJournal([WORK, RETURN], RULES)
    const pass = { journal, control: control(), decisions: [] }
    expect(approvalDeadline(pass, 'gate')).toBe(Number.POSITIVE_INFINITY)
    expect(approvalDeadline(pass, 'dispatch')).toBe(Number.POSITIVE_INFINITY)
    expect(approvalDeadline({ ...pass, control: undefined }, 'return')).toBe(Number.POSITIVE_INFINITY)
  })
})
