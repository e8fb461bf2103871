import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { z } from 'zod'
import * as e from '../../../test/support/builders/examples.js'
import * as s from '../index.js'

const HASH = 'a'.repeat(64)
const NOW = 1_764_327_600_000
const key = { originator: 'alice', subagent: 'audit', id: e.PASS_ID }
const part: s.Part = { name: 'file:src/sum.ts', hash: HASH, size: 3, data: new Uint8Array([1, 2, 3]), owner: 'alice' }

const control: s.WorkControl = {
  id: e.PASS_ID,
  originating_agent_id: 'alice',
  subagent_id: 'audit',
  reason: 'review_changes',
  priority: 'high',
  timeout_ms: 30_000,
  return_required: true,
  auto_apply_on_success: false,
  constraints: ['read_only'],
  expected_output_type: 'mixed',
  override: e.override,
  digest: HASH,
  request_sequence: 11,
  requested_at: NOW,
  return_id: 'V1StGXR8_Z5jdHi6B-myT',
  chain_depth: 2,
  max_chain_depth: 3,
  ancestors: ['scout', 'alice'],
  origination_chain: e.metadata.origination_chain,
  root: { ...key, originator: 'scout', subagent: 'alice' },
  parent: { ...key, originator: 'scout', subagent: 'alice' },
  proof: 9,
  parent_deadline: NOW + 60_000,
  rights: { can_modify_files: false, can_run_tools: true, tools: ['bash'], constraints: ['read_only'] },
  policy: e.policy,
  policy_name: 'alice->audit',
  policy_override: true,
  policy_version: 4,
  max_attempts: 3,
  lease_ms: 5_000,
  budget: { passes: 2 },
  retry_of: e.PASS_ID,
  user_id: 'maria',
  session_id: 'session-abc123',
  context_bytes: 35,
  reply_type: 'msgpack',
  trace_id: 'trace',
}
const error = { code: 'E010', message: 'too late', details: { timeout_ms: 30_000 } } as const

/** Every body that travels, with all its fields. */
const BODIES: [name: string, schema: z.ZodType, full: object][] = [
  ['request', s.requestEnvelope, { v: 1, request: e.control, parts: [part], session_id: 's' }],
  ['work', s.workEnvelope, { v: 1, control, parts: [part] }],
  ['held', s.heldEnvelope, { v: 1, control, expires_ms: 86_400_000 }],
  ['return of a worker', s.returnEnvelope, { v: 1, output: e.output, parts: [{ name: 'artifact:0', hash: HASH, size: 1 }] }],
  ['return of the system', s.returnEnvelope, { v: 1, error, raw_output: { status: 'done' } }],
  ['decision', s.decisionBody, { v: 1, verdict: 'approve', digest: HASH, reason: 'fine', modifications: { [HASH]: 'taken' } }],
  ['cancel', s.cancelBody, { v: 1, reason: 'not needed' }],
  ['started', s.startedBody, { v: 1, attempt: 1, started_at: NOW }],
  ['progress', s.progressBody, { v: 1, attempt: 1, message: 'half', fraction: 0.5 }],
  [
    'applied',
    s.appliedBody,
    {
      v: 1,
      applied_by: 'maria',
      applied_at: NOW,
      applied: ['a'],
      rejected: ['b'],
      conflicts: [{ path: 'c', why: 'changed since' }],
      digests: [HASH],
      undone: true,
      nonce: 'n',
    },
  ],
  ['late', s.lateBody, { v: 1, attempt: 1, output: e.output }],
  ['dead letter', s.deadLetterBody, { v: 1, sequence: 7, error, bytes: new Uint8Array([1]), truncated: false }],
  ['settled', s.settledBody, { v: 1, action: 'requeue', requeued_as: 'requeue-0123456789', reason: 'mended' }],
  ['violation', s.violationBody, { v: 1, sequence: 7, what: 'a second return' }],
  ['expired', s.expiredBody, { v: 1, item: 'return' }],
  ['agent', s.agentBody, { v: 1, name: 'audit', record: e.agent }],
]

describe.each(BODIES)('the body of a %s', (_, schema, full) => {
  it('is kept as it is', () => {
    expect(schema.parse(full)).toEqual(full)
  })

  it('says its version, the only one there is', () => {
    expect(schema.safeParse({ ...full, v: 2 }).success).toBe(false)
    expect(schema.safeParse({ ...full, v: undefined }).success).toBe(false)
  })

  it.each(Object.keys(full).filter((field) => field !== 'raw_output'))('refuses a wrong %s', (field) => {
    expect(schema.safeParse({ ...full, [field]: Symbol.iterator }).success).toBe(false)
  })

  it('whatever it is, reading it does not throw', () => {
    fc.assert(
      fc.property(fc.constantFrom(...Object.keys(full)), fc.anything({ withBigInt: true, withTypedArray: true }), (field, value) => {
        schema.safeParse({ ...full, [field]: value })
      }),
    )
  })
})

describe('the control frame of work', () => {
  it.each(Object.keys(control))('refuses a wrong %s', (field) => {
    expect(s.workControl.safeParse({ ...control, [field]: Symbol.iterator }).success).toBe(false)
  })
})

describe('parts', () => {
  it.each([
    ['an empty name', { name: '' }],
    ['a name without end', { name: `file:${'x'.repeat(1_100)}` }],
    ['a hash in upper case', { hash: 'A'.repeat(64) }],
    ['a hash that is too short', { hash: 'a'.repeat(63) }],
    ['a hash without end', { hash: 'a'.repeat(10_000_000) }],
    ['a negative size', { size: -1 }],
    ['a size above 1 GiB', { size: 1024 ** 3 + 1 }],
    ['text for bytes', { data: 'abc' }],
    ['an owner that is no agent', { owner: 'a.b' }],
  ])('with %s are refused', (_, wrong) => {
    expect(s.part.safeParse({ ...part, ...wrong }).success).toBe(false)
  })

  it('have names of their own', () => {
    const parts = [part, { ...part, hash: 'b'.repeat(64) }]
    expect(s.requestEnvelope.safeParse({ v: 1, request: e.control, parts }).error?.issues[0]?.path).toEqual(['parts'])
    expect(s.workEnvelope.safeParse({ v: 1, control, parts }).success).toBe(false)
  })

  it('that are too many are refused', () => {
    const parts = new Array(1_000_000).fill(part)
    expect(s.requestEnvelope.safeParse({ v: 1, request: e.control, parts }).error?.issues).toHaveLength(1)
  })
})

describe('questions', () => {
  it.each([
    { op: 'time' },
    { op: 'pass', originator: 'alice', subagent: 'audit', id: 'abc', history: true },
    { op: 'list', originator: 'alice', subagent: 'audit', session_id: 's', status: 'held', limit: 10 },
    { op: 'agents' },
  ])('$op is one', (question) => {
    expect(s.question.parse(question)).toMatchObject(question)
  })

  it.each([{ op: 'drop' }, {}, { op: 'pass' }, { op: 'list', limit: 1e6 }, { op: 'pass', id: 'x'.repeat(65) }])(
    '%j is none',
    (question) => {
      expect(s.question.safeParse(question).success).toBe(false)
    },
  )
})
