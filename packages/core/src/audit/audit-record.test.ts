import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { decision, event, history, RETURN, record, refused, system, WORK } from '../../testing/histories.js'
import { KEY, output, RULES, request, step, T0, WINDOW } from '../../testing/samples.js'
import { modificationsIn } from '../approval/modifications.js'
import { auditRecord } from './audit-record.js'

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

  it('says of what somebody did about it whether the name was checked, and of its own originator nothing', () => {
    const settled = { ...event('settled', 20, { v: 1, action: 'drop' }), sender: 'maria' }
    const applied = (by: string) => {
      const body = { v: 1, applied_by: by, applied_at: T0, applied: ['a'], rejected: [] }
      return { ...event('applied', 21, body), sender: by }
    }
    const pass = history({ events: [settled, applied('maria')] })
    expect(auditRecord(pass, RULES)).toMatchObject({ settlement: { by: 'maria' }, application: { by: 'maria' } })
    expect(auditRecord(pass, RULES).settlement).not.toHaveProperty('unverified')
    const told = auditRecord(pass, { ...RULES, names: 'unverified' })
    expect(told).toMatchObject({ settlement: { by: 'maria', unverified: true }, application: { by: 'maria', unverified: true } })
    const own = auditRecord(history({ events: [applied(KEY.originator)] }), { ...RULES, names: 'unverified' })
    expect(own.application).not.toHaveProperty('unverified')
  })

  it('tells of what was applied only changes of the output, as far as all of that is here', () => {
    const change = { type: 'file_modification', path: 'a', old_content: 'a', new_content: 'b', reason: 'r', confidence: 'high' } as const
    const [digest = ''] = modificationsIn({ artifacts: [change] }).map((one) => one.digest)
    const said = { v: 1, applied_by: 'maria', applied_at: T0, applied: ['a'], rejected: [] }
    const applied = (digests: string[]) => ({ ...event('applied', 21, { ...said, digests }), sender: 'maria' })
    const told = (digests: string[], artifacts: unknown[], more: string[] = []) => {
      const returned = { v: 1 as const, output: { ...output(), artifacts } as never }
      return record({ returned, events: [applied(digests), ...(more.length > 0 ? [applied(more)] : [])] })
    }
    const foreign = 'f'.repeat(64)
    expect(told([foreign, digest], [change]).application?.modifications).toEqual({ [digest]: 'applied' })
    expect(told([foreign], [change])).toMatchObject({ entry: { applied: false } })
    expect(told([foreign], [change])).not.toHaveProperty('application')
    const apart = { part: 'artifact:0', kind: 'file_modification' }
    expect(told([foreign], [apart]).application?.modifications).toEqual({ [foreign]: 'applied' })
    // A record fits into a message of the bucket, whatever an originator says of an output that is not here.
    const many = Array.from({ length: 20_000 }, (_, at) => String(at).padStart(64, '0'))
    expect(Object.keys(told(many.slice(0, 9_000), [apart], many.slice(9_000, 18_000)).application?.modifications ?? {})).toHaveLength(
      10_000,
    )
    expect(told(['f'.repeat(65)], [apart])).not.toHaveProperty('application')
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
