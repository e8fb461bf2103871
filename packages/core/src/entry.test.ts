import { type DecisionFact, type EventFact, passRecord, type WorkControl } from '@passover/schemas'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { control, KEY, output, RULES, request, step, T0, timedId, WINDOW } from '../testing/samples.js'
import { countedDecisions, judgeDecision } from './decisions.js'
import { auditRecord } from './entry.js'
import type { PassHistory } from './history.js'
import { foldJournal } from './lifecycle.js'

const WORK = step('work', 12, { request: 10, requested_at: T0, digest: 'd'.repeat(64) })
const RETURN = step('return', 15, { time: T0 + 700 })

function decision(sequence: number, more: Partial<DecisionFact & { reason: string }> = {}): DecisionFact & { reason?: string } {
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

function event(kind: EventFact['kind'], sequence: number, body?: unknown): EventFact & { body?: unknown } {
  return { type: 'event', kind, key: KEY, sender: 'alice', sequence, time: T0 + sequence, body }
}

function history(more: Partial<PassHistory> = {}): PassHistory {
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

function record(more: Partial<PassHistory> = {}) {
  const told = auditRecord(history(more), RULES)
  expect(passRecord.parse(told)).toEqual(told)
  return told
}

const refused = (code: 'E003' | 'E010' | 'E011' | 'E043') => ({ v: 1 as const, error: { code, message: 'because' } })
const system = (code: 'E003' | 'E010' | 'E011' | 'E043', sequence = 15) =>
  step('return', sequence, { by: 'passover', attempt: 0, code, time: T0 + 900, requested_at: T0, digest: 'd'.repeat(64) })

describe('auditRecord', () => {
  it('tells a pass that was returned', () => {
    expect(record()).toEqual({
      v: 1,
      key: KEY,
      status: 'returned',
      session_id: 'session-1',
      attempt: 1,
      digest: 'd'.repeat(64),
      reason: 'review_changes',
      priority: 'medium',
      policy_version: 3,
      chain_depth: 1,
      ancestors: ['alice'],
      root: KEY,
      requested_at: T0,
      admitted_at: T0 + 12,
      deadline: T0 + 30_012,
      ended_at: T0 + 700,
      sequences: { requests: [10], work: 12, return: 15, fences: [], last: 15 },
      entry: {
        pass_over_id: KEY.id,
        session_id: 'session-1',
        timestamp: T0,
        originating_agent: 'alice',
        subagent: 'audit',
        user_id: 'carol',
        reason: 'review_changes',
        work_context_size_bytes: 600,
        expected_output_type: '',
        started_at: T0 + 100,
        completed_at: T0 + 600,
        duration_ms: 500,
        status: 'completed',
        artifacts_count: 1,
        files_modified_count: 2,
        issues_found_count: 1,
        returned: true,
        returned_at: T0 + 700,
        applied: false,
        policy_applied: 'system v3',
        policy_overrides: { timeout_ms: 30_000 },
        summary: 'm',
      },
      metadata: {
        created_at: T0,
        started_at: T0 + 100,
        completed_at: T0 + 600,
        returned_at: T0 + 700,
        pass_over_id: KEY.id,
        trace_id: 'trace-1',
        chain_depth: 1,
        origination_chain: [
          { agent_id: 'alice', timestamp: T0, action: 'initiated' },
          { agent_id: 'audit', timestamp: T0 + 700, action: 'returned' },
        ],
        policy_name: 'system',
        policy_override: false,
        policy_version: 3,
        attempt: 1,
        wall_time_ms: 700,
        subagent_compute_ms: 450,
        applied: false,
      },
      decisions: [],
    })
  })

  it('tells one that is only requested, held or open', () => {
    const nothing = { control: undefined, returned: undefined }
    const bare = record({ ...nothing, steps: [], request: undefined })
    expect(bare).toEqual({
      v: 1,
      key: KEY,
      status: 'requested',
      attempt: 0,
      requested_at: T0,
      sequences: { requests: [10], fences: [], last: 10 },
      decisions: [],
    })
    const held = record({ steps: [step('held', 11, { expires_ms: 500 })], returned: undefined })
    expect(held).toMatchObject({ status: 'held', attempt: 0, held_at: T0 + 11, deadline: T0 + 511, sequences: { held: 11, last: 11 } })
    const open = record({ steps: [step('held', 11, { expires_ms: 500 }), WORK, step('fence', 13)], returned: undefined })
    expect(open).toMatchObject({
      status: 'waiting_for_return',
      attempt: 2,
      held_at: T0 + 11,
      admitted_at: T0 + 12,
      deadline: T0 + 30_012,
      sequences: { held: 11, work: 12, fences: [13], last: 13 },
    })
    expect('entry' in open || 'metadata' in open || 'error' in open).toBe(false)
    expect(record({ steps: [step('work', 12, { timeout_ms: undefined })], returned: undefined }).deadline).toBe(T0 + 30_012)
    expect(record({ steps: [step('held', 11)], returned: undefined }).deadline).toBeUndefined()
  })

  it('tells a refusal without a control frame', () => {
    const asked = request({
      parent: { ...KEY, originator: 'root', return_id: 'r', proof: 4 },
      retry_of: 'earlier-id',
      user_id: 'carol',
      trace_id: 't',
      expected_output_type: 'report',
      override: { auto_return: true },
    })
    const told = record({
      control: undefined,
      request: asked,
      steps: [system('E003')],
      returned: refused('E003'),
      session_id: 's',
      context_bytes: 44,
    })
    expect(told).toMatchObject({
      status: 'refused',
      attempt: 0,
      session_id: 's',
      digest: 'd'.repeat(64),
      parent: { originator: 'root', subagent: 'audit', id: KEY.id },
      retry_of: 'earlier-id',
      error: { code: 'E003', message: 'because' },
      entry: {
        status: 'refused',
        returned: false,
        reason: 'review_changes',
        user_id: 'carol',
        expected_output_type: 'report',
        work_context_size_bytes: 44,
        policy_applied: '',
        policy_overrides: { auto_return: true },
        summary: 'E003: because',
      },
      metadata: {
        chain_depth: 0,
        origination_chain: [{ agent_id: 'alice', timestamp: T0, action: 'delegated' }],
        wall_time_ms: 900,
        subagent_compute_ms: 0,
        attempt: 0,
        retry_of: 'earlier-id',
        trace_id: 't',
      },
    })
    expect(told.entry?.returned_at).toBeUndefined()
  })

  it('tells what is known where the request is gone', () => {
    const told = record({ control: undefined, request: undefined, requests: [], steps: [system('E003')], returned: undefined })
    expect(told).toMatchObject({
      status: 'refused',
      entry: { reason: '', session_id: '', timestamp: T0, expected_output_type: '', work_context_size_bytes: 0, summary: '' },
    })
    const older = record({
      control: undefined,
      request: undefined,
      requests: [],
      steps: [{ ...system('E003'), requested_at: undefined }],
      returned: undefined,
    })
    expect(older.entry?.timestamp).toBe(T0 + 900)
    expect(older.metadata?.origination_chain).toEqual([{ agent_id: 'alice', timestamp: T0 + 900, action: 'initiated' }])
  })

  it.each([
    ['E010', 'timed_out', 'timed_out'],
    ['E043', 'cancelled', 'cancelled'],
    ['E011', 'returned', 'failed'],
  ] as const)('tells an end by %s', (code, status, audited) => {
    const started = event('started', 13, { v: 1, attempt: 1, started_at: T0 + 50 })
    const told = record({ steps: [WORK, system(code)], returned: refused(code), events: [started] })
    expect(told).toMatchObject({ status, error: { code }, entry: { status: audited, started_at: T0 + 50, returned: false } })
    expect(told.entry?.duration_ms).toBeUndefined()
    expect(record({ steps: [WORK, system(code)], returned: refused(code), events: [event('started', 13)] }).entry?.started_at).toBe(T0 + 13)
  })

  it('waits for release until a person approves, and is processed once its originator has it', () => {
    const blocked = { v: 1 as const, output: output({ status: 'partial' }) }
    const approval = decision(16, { item: 'return', digest: 'r' })
    expect(record({ returned: blocked }).status).toBe('awaiting_release')
    expect(record({ returned: blocked, decisions: [approval], return_digest: 'r' }).status).toBe('returned')
    expect(record({ returned: blocked, decisions: [approval], return_digest: 'other' }).status).toBe('awaiting_release')
    expect(record({ returned: blocked, decisions: [{ ...approval, verdict: 'deny' }] }).status).toBe('awaiting_release')
    const denied = { returned: blocked, decisions: [{ ...approval, verdict: 'deny' as const, reason: 'no' }], return_digest: 'r' }
    expect(record(denied)).toMatchObject({ status: 'returned', error: { code: 'E013', message: 'bob did not release the output: no' } })
    expect(record({ returned: blocked }).awaits).toEqual({ item: 'return', since: T0 + 700, expires_at: T0 + 700 + 86_400_000 })
    expect(record(denied)).not.toHaveProperty('awaits')
    expect(record({ returned: blocked, acknowledged_at: T0 + 999 }).status).toBe('processed')
    expect(record({ returned: blocked, control: undefined }).status).toBe('returned')
  })

  it('that nobody released in time is expired, once the system said so after that time', () => {
    const returned = { v: 1 as const, output: output({ status: 'partial' }) }
    const over = T0 + 700 + 86_400_000
    const expired = (time: number, sender = 'passover') => ({ ...event('expired', 20, { v: 1, item: 'return' }), sender, time })
    const told = record({ returned, events: [expired(over)] })
    expect(told).toMatchObject({
      status: 'expired',
      error: { code: 'E013', message: expect.stringContaining('in time'), details: { approval: 'expired' } },
    })
    expect(told).not.toHaveProperty('awaits')
    expect(record({ returned, events: [expired(over)], acknowledged_at: over + 9 }).status).toBe('expired')
    expect(record({ returned, events: [expired(over - 1)] }).status).toBe('awaiting_release')
    expect(record({ returned, events: [expired(over, 'audit')] }).status).toBe('awaiting_release')
    const approval = decision(16, { item: 'return', digest: 'r' })
    expect(record({ returned, events: [expired(over)], decisions: [approval], return_digest: 'r' }).status).toBe('returned')
    expect(record({ events: [expired(over)] }).status).toBe('returned')
  })

  it('reads a stored return that is not acceptable as E021 or E013', () => {
    expect(record({ returned: { v: 1, output: { status: 'fine' } } })).toMatchObject({
      error: { code: 'E021' },
      entry: { status: 'failed', returned: false },
    })
    expect(record({ returned: { v: 1, output: output({ return_to: 'mallory' }) } })).toMatchObject({ error: { code: 'E013' } })
  })

  it.each([
    ['a code that cannot be a string', { code: { toString: 1, valueOf: 1 }, message: 'm' }],
    ['a number for a code', { code: 5, message: 'm' }],
    ['a code that is for the system to say', { code: 'E043', message: 'm' }],
  ])("reads a worker's error with %s as E021", (_, error) => {
    const told = record({ returned: { v: 1, error } as never })
    expect(told).toMatchObject({ error: { code: 'E021' }, entry: { status: 'failed', summary: expect.stringMatching(/^E021: /) } })
  })

  it("does not believe a worker's return when it says when it was asked for", () => {
    const forged = { ...RETURN, requested_at: Number.MAX_SAFE_INTEGER }
    expect(record({ steps: [WORK, forged], control: undefined }).entry?.timestamp).toBe(T0)
    const system = { by: 'passover', code: 'E003', requested_at: T0 - 5 } as const
    expect(record({ steps: [step('return', 15, system)], control: undefined, returned: undefined }).entry?.timestamp).toBe(T0 - 5)
    const endless = step('return', 15, { ...system, requested_at: Number.MAX_SAFE_INTEGER })
    expect(record({ steps: [endless], control: undefined, returned: undefined }).entry?.timestamp).toBe(T0)
  })

  it('tells who applied what', () => {
    const body = { v: 1, applied_by: 'bob', applied_at: T0 + 5_000, applied: ['a.ts'], rejected: ['b.ts'] }
    expect(record({ events: [event('applied', 20, body)] })).toMatchObject({
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

  it('is the same in whatever order the messages are handed in', () => {
    const whole = history({
      steps: [WORK, step('fence', 13), step('return', 14), step('return', 15, { attempt: 2 }), step('fence', 16, { attempt: 3 })],
      requests: [
        { sequence: 10, time: T0 },
        { sequence: 11, time: T0 + 1 },
      ],
      decisions: [decision(17, { item: 'return' }), decision(18, { item: 'return', person: 'eve', reason: 'second' })],
      events: [event('started', 12.5, undefined), event('late', 19), event('late', 20)],
    })
    const expected = auditRecord(whole, RULES)
    const shuffled = <T>(list: readonly T[]) => fc.shuffledSubarray([...list], { minLength: list.length })
    fc.assert(
      fc.property(
        shuffled(whole.steps),
        shuffled(whole.requests),
        shuffled(whole.decisions),
        shuffled(whole.events),
        (steps, requests, decisions, events) => {
          expect(auditRecord({ ...whole, steps, requests, decisions, events }, RULES)).toEqual(expected)
        },
      ),
    )
  })

  it('ignores a first step that came too late', () => {
    const told = record({ steps: [step('work', 12, { time: T0 + WINDOW + 1 })], returned: undefined, control: undefined })
    expect(told).toMatchObject({ status: 'requested', violations: [{ sequence: 12, what: 'a first step after its id expired' }] })
  })
})

describe('judgeDecision', () => {
  const body = { v: 1, verdict: 'approve', digest: 'h' }
  const fact = { person: 'bob', verdict: 'approve', digest: 'h', time: T0 } as const
  const rules = { key: KEY, digest: 'h' }

  it('goes by the body, with or without headers', () => {
    expect(judgeDecision(fact, body, rules)).toEqual({ counts: true, person: 'bob', body })
    expect(judgeDecision({ person: 'bob', time: T0 }, { ...body, reason: 'r' }, rules)).toMatchObject({
      counts: true,
      body: { reason: 'r' },
    })
  })

  it.each([
    ['no decision', fact, undefined, rules],
    ['no decision', fact, { ...body, verdict: 'maybe' }, rules],
    ['headers and body differ', { ...fact, verdict: 'deny' as const }, body, rules],
    ['headers and body differ', { ...fact, digest: 'x' }, body, rules],
    ['headers and body differ', fact, { ...body, digest: 'x' }, rules],
    ['takes part in the pass', { ...fact, person: KEY.originator }, body, rules],
    ['takes part in the pass', { ...fact, person: KEY.originator }, body, { ...rules, approvers: [KEY.originator] }],
    ['takes part in the pass', { ...fact, person: KEY.subagent }, body, rules],
    ['takes part in the pass', { ...fact, person: 'root' }, body, { ...rules, ancestors: ['root', 'alice'] }],
    ['not a person', fact, body, { ...rules, isPerson: () => false }],
    ['not an approver', fact, body, { ...rules, approvers: ['carol'] }],
    ['about something else', { person: 'bob', time: T0 }, { ...body, digest: 'x' }, rules],
    ['too late', fact, body, { ...rules, expires_at: T0 }],
  ])('says why one counts for nothing: %s', (why, stored, given, by) => {
    expect(judgeDecision(stored, given, by)).toEqual({ counts: false, why })
  })

  it('lets approvers decide, and about what has no digest everybody', () => {
    expect(judgeDecision(fact, body, { ...rules, approvers: ['bob'], isPerson: (name) => name === 'bob' }).counts).toBe(true)
    expect(judgeDecision(fact, body, { key: KEY }).counts).toBe(true)
    expect(judgeDecision(fact, body, { ...rules, expires_at: T0 + 1 }).counts).toBe(true)
  })
})

describe('countedDecisions', () => {
  const held = step('held', 11, { digest: 'h' })
  const counts = (pass: Partial<PassHistory>) => {
    const whole = history({ steps: [held], returned: undefined, ...pass })
    return countedDecisions(whole, foldJournal(whole.steps, RULES).journal).map((one) => one.counts)
  }
  const approvers = { ...control(), policy: { ...control().policy, approvers: ['bob'] } }

  it('counts the first of an item by an approver about what was shown', () => {
    expect(counts({ decisions: [decision(12, { digest: 'h' })] })).toEqual([true])
    expect(counts({ decisions: [decision(12, { digest: 'h', verdict: 'deny' }), decision(13, { digest: 'h' })] })).toEqual([true, false])
    expect(counts({ decisions: [decision(12, { digest: 'x' }), decision(13, { digest: 'h' })] })).toEqual([false, true])
    expect(
      counts({ decisions: [decision(12, { digest: 'h', person: 'eve' }), decision(13, { digest: 'h' })], control: approvers }),
    ).toEqual([false, true])
    expect(counts({ decisions: [decision(12, { item: 'gate', digest: 'whatever' })] })).toEqual([true])
  })

  it('counts no decision by an agent of the pass, and none about dispatch of what was never held', () => {
    expect(counts({ decisions: [decision(12, { digest: 'h', person: 'alice' }), decision(13, { digest: 'h', person: 'audit' })] })).toEqual(
      [false, false],
    )
    expect(counts({ steps: [WORK], decisions: [decision(12)] })).toEqual([false])
  })

  it('takes the digest of the control frame where the step has none', () => {
    expect(counts({ steps: [step('held', 11)], decisions: [decision(12)] })).toEqual([true])
    expect(counts({ steps: [step('held', 11)], control: undefined, decisions: [decision(12, { digest: undefined })] })).toEqual([false])
  })

  it('takes verdict, digest and reason from the body, and counts none whose headers say otherwise', () => {
    const body = { v: 1, verdict: 'deny', digest: 'h', reason: 'no' }
    const of = (one: object) => {
      const whole = history({ steps: [held], returned: undefined, decisions: [{ ...decision(12), ...one }] })
      return countedDecisions(whole, foldJournal(whole.steps, RULES).journal)
    }
    expect(of({ verdict: undefined, digest: undefined, body })).toMatchObject([
      { verdict: 'deny', digest: 'h', reason: 'no', counts: true },
    ])
    expect(of({ verdict: 'deny', digest: 'h', body })).toMatchObject([{ verdict: 'deny', counts: true }])
    expect(of({ verdict: 'approve', digest: 'h', body })).toMatchObject([{ verdict: 'deny', counts: false }])
    expect(of({ verdict: 'deny', digest: 'x', body })).toMatchObject([{ digest: 'h', counts: false }])
    expect(of({ verdict: 'approve', digest: 'h', body: undefined })).toMatchObject([{ verdict: 'approve', counts: false }])
  })

  it.each(['return', 'apply'])("binds a decision about item %s to the stored return's digest", (item) => {
    const returned = { steps: [WORK, RETURN], returned: { v: 1 as const, output: output() }, return_digest: 'r' }
    const right = decision(17, { item, digest: 'r' })
    expect(counts({ ...returned, decisions: [decision(16, { item, digest: 'x' }), right] })).toEqual([false, true])
    expect(counts({ ...returned, returned: undefined, return_digest: undefined, decisions: [right] })).toEqual([false])
    expect(counts({ ...returned, returned: refused('E010'), steps: [WORK, system('E010')], decisions: [right] })).toEqual([false])
  })

  it.each([
    ['dispatch', 'h', { steps: [step('held', 11, { digest: 'h', time: T0, expires_ms: 100 })] }, T0 + 100],
    ['return', 'r', { steps: [WORK, RETURN] }, T0 + 700 + 86_400_000],
    ['apply', 'r', { steps: [WORK, RETURN] }, T0 + 700 + 86_400_000],
  ])('counts no decision about item %s that was stored at its expiry or later', (item, digest, of, expiry) => {
    const returned = item === 'dispatch' ? {} : { returned: { v: 1 as const, output: output() }, return_digest: 'r' }
    const at = (time: number) => counts({ ...of, ...returned, decisions: [decision(17, { item, digest, time })] })
    expect([at(expiry - 1), at(expiry)]).toEqual([[true], [false]])
  })

  it('keeps what an application takes, of the decision that counts alone', () => {
    const body = { v: 1, verdict: 'approve', digest: 'r', modifications: { m1: 'taken', m2: 'rejected' } }
    const apply = (sequence: number, more = {}) => ({ ...decision(sequence, { item: 'apply', digest: 'r' }), body: { ...body, ...more } })
    const whole = history({ decisions: [apply(16, { digest: 'x' }), apply(17), apply(18)], return_digest: 'r' })
    const told = countedDecisions(whole, foldJournal(whole.steps, RULES).journal)
    expect(told.map(({ modifications }) => modifications)).toEqual([undefined, body.modifications, undefined])
    expect(record({ ...whole }).decisions).toEqual(told)
    const other = history({ decisions: [{ ...apply(17), item: 'return' }], return_digest: 'r' })
    expect(countedDecisions(other, foldJournal(other.steps, RULES).journal)[0]).not.toHaveProperty('modifications')
  })

  it('leaves out what says neither yes nor no', () => {
    expect(counts({ decisions: [decision(12, { verdict: undefined })] })).toEqual([])
  })
})
