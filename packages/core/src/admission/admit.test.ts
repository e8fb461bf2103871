import { type RequestControl, workControl } from '@passover/schemas'
import { describe, expect, it } from 'vitest'
import { childInput, childRequest, held, parent, refusal } from '../../testing/admissions.js'
import { admitInput, agent, control, KEY, request, T0, timedId, WINDOW } from '../../testing/samples.js'
import { admit, approveHeld } from './admit.js'

describe('admit', () => {
  it('decides everything about a root pass', () => {
    const admission = admit(admitInput())
    if (admission.kind !== 'admit') throw new Error(admission.kind)
    expect(workControl.parse(admission.control)).toEqual(admission.control)
    expect(admission.control.priority).toBe('medium')
    expect(admission.control).toMatchObject({
      id: KEY.id,
      originating_agent_id: 'alice',
      subagent_id: 'audit',
      priority: 'medium',
      timeout_ms: 30_000,
      return_required: true,
      auto_apply_on_success: false,
      constraints: [],
      digest: 'd'.repeat(64),
      request_sequence: 7,
      requested_at: T0,
      return_id: 'return-1',
      chain_depth: 1,
      max_chain_depth: 3,
      ancestors: ['alice'],
      origination_chain: [{ agent_id: 'alice', timestamp: T0, action: 'initiated' }],
      root: KEY,
      rights: { can_modify_files: false, can_run_tools: true, constraints: [] },
      policy_name: 'system',
      policy_override: false,
      policy_version: 3,
      max_attempts: 3,
      lease_ms: 5_000,
      session_id: 'session-1',
      context_bytes: 600,
      reply_type: 'msgpack',
    })
    for (const absent of [
      'parent',
      'proof',
      'parent_deadline',
      'budget',
      'override',
      'retry_of',
      'user_id',
      'trace_id',
      'expected_output_type',
    ]) {
      expect(absent in admission.control).toBe(false)
    }
  })

  it('carries what the request says along', () => {
    const asked = request({
      priority: 'high',
      timeout_ms: 90_000,
      constraints: ['no_external_calls'],
      expected_output_type: 'report',
      override: { auto_return: true },
      retry_of: 'earlier-id',
      user_id: 'bob',
      budget: { passes: 4 },
      return_required: false,
    })
    const admission = admit(admitInput({ request: asked, trace_id: 'trace-1', reply_type: 'json' }))
    expect(admission).toMatchObject({
      kind: 'admit',
      control: {
        priority: 'high',
        timeout_ms: 90_000,
        constraints: ['no_external_calls'],
        expected_output_type: 'report',
        override: { auto_return: true },
        policy_override: true,
        retry_of: 'earlier-id',
        user_id: 'bob',
        trace_id: 'trace-1',
        budget: { passes: 4 },
        return_required: false,
        reply_type: 'json',
        policy: { auto_return: true, timeout_ms: 90_000 },
      },
    })
  })

  it('tells all that the request changes of the policy', () => {
    expect(control({ request: request({ timeout_ms: 90, auto_apply_on_success: false }) }).override).toEqual({
      timeout_ms: 90,
      auto_apply: false,
    })
    expect(control({ request: request({ timeout_ms: 90, override: { timeout_ms: 80 } }) }).override).toEqual({ timeout_ms: 80 })
  })

  it('lets an inline auto_apply win over the request', () => {
    const policy = { version: 1, document: { pairs: { 'alice->audit': { auto_apply: true } } } }
    expect(control({ policy, request: request({ auto_apply_on_success: true }) }).auto_apply_on_success).toBe(true)
    expect(
      control({ policy, request: request({ auto_apply_on_success: true, override: { auto_apply: false } }) }).auto_apply_on_success,
    ).toBe(false)
    expect(control({ policy }).auto_apply_on_success).toBe(false)
  })

  describe('E005', () => {
    it('refuses a body that differs from its subject', () => {
      expect(refusal({ subject: { originator: 'mallory', subagent: 'audit' } })).toMatchObject({
        code: 'E005',
        details: { field: 'originating_agent_id', body: 'alice', subject: 'mallory' },
      })
      expect(refusal({ subject: { originator: 'alice', subagent: 'scout' } })).toMatchObject({
        code: 'E005',
        details: { field: 'subagent_id' },
      })
    })

    it('refuses an id older than the window, says the time and where the result is', () => {
      expect(admit(admitInput({ now: T0 + WINDOW, requested_at: T0 + WINDOW })).kind).toBe('admit')
      expect(refusal({ now: T0 + WINDOW + 1, requested_at: T0 + WINDOW + 1 })).toMatchObject({
        code: 'E005',
        details: {
          expired: true,
          server_time: T0 + WINDOW + 1,
          id_time: T0,
          result: { ask: 'ask.alice', originator: 'alice', subagent: 'audit', id: KEY.id },
        },
      })
    })

    it('refuses an id more than 60 s ahead', () => {
      const ahead = (ms: number) => request({ id: timedId(T0 + 10 + ms) })
      expect(admit(admitInput({ request: ahead(60_000) })).kind).toBe('admit')
      expect(refusal({ request: ahead(60_001) })).toMatchObject({ code: 'E005', details: { server_time: T0 + 10, id_time: T0 + 60_011 } })
    })

    it('takes an id without time for as old as its request', () => {
      const asked = request({ id: 'my-own-id-1', timeout_ms: 80_000_000 })
      expect(admit(admitInput({ request: asked, now: T0 + WINDOW })).kind).toBe('admit')
      expect(refusal({ request: asked, now: T0 + WINDOW + 1 })).toMatchObject({ code: 'E005', details: { expired: true } })
    })
  })

  describe('E001 and E013 of the registry', () => {
    it('refuses an unknown subagent, and an agent that is none', () => {
      expect(refusal({ agents: { originator: agent('alice'), open: true } })).toMatchObject({ code: 'E001', details: { agent: 'audit' } })
      expect(refusal({ agents: { originator: agent('alice'), subagent: agent('audit', { subagent: false }), open: true } })).toMatchObject({
        code: 'E001',
        details: { mend: expect.stringContaining('passover agents set audit --subagent') },
      })
    })

    it('refuses one that the policy lets receive nothing', () => {
      const document = { subagents: { audit: { can_receive_passes: false } } }
      expect(refusal({ policy: { version: 1, document } })).toMatchObject({ code: 'E001', details: { agent: 'audit' } })
    })

    it('refuses an unknown originator unless registration is open', () => {
      expect(refusal({ agents: { subagent: agent('audit'), open: false } })).toMatchObject({ code: 'E013', details: { agent: 'alice' } })
      expect(admit(admitInput({ agents: { subagent: agent('audit'), open: true } })).kind).toBe('admit')
    })

    it('refuses a request that a revoked agent stored before, also one within a pass', () => {
      const revoked = (name: string) => ({ ...agent(name, { originates: 'always' }), revoked_at: T0 - 1 })
      const why = { code: 'E013', details: { mend: 'to give it access again: passover auth add agent alice' } }
      expect(refusal({ agents: { originator: revoked('alice'), subagent: agent('audit'), open: true } })).toMatchObject(why)
      const child = childInput({ agents: { originator: revoked('audit'), subagent: agent('scout'), open: true } })
      expect(refusal(child)).toMatchObject({ code: 'E013', message: 'The credentials of audit were revoked' })
    })

    it('refuses who may never pass over, and who may only within a pass', () => {
      const agents = (originates: 'never' | 'within_a_pass') => ({
        originator: agent('alice', { originates }),
        subagent: agent('audit'),
        open: true,
      })
      expect(refusal({ agents: agents('never') })).toMatchObject({ code: 'E013', details: { originates: 'never' } })
      expect(refusal({ agents: agents('within_a_pass') })).toMatchObject({ code: 'E013', details: { originates: 'within_a_pass' } })
      expect(
        refusal(childInput({ agents: { originator: agent('audit', { originates: 'never' }), subagent: agent('scout'), open: true } })),
      ).toMatchObject({ code: 'E013' })
    })
  })

  describe('chain', () => {
    it('refuses a pass to itself, whatever the registry says of it', () => {
      const asked = request({ subagent_id: 'alice' })
      expect(refusal({ request: asked, agents: { originator: agent('alice'), open: true } })).toMatchObject({ code: 'E003' })
    })

    it('refuses a loop over the stored ancestors', () => {
      const back = childRequest({ subagent_id: 'alice' })
      const agents = { originator: agent('audit'), subagent: agent('alice', { subagent: false }), open: true }
      const error = refusal(childInput({ request: back, agents }))
      expect(error).toMatchObject({ code: 'E003', details: { chain: ['alice', 'audit', 'alice'] } })
      expect(error.message).toContain('alice → audit → [alice]')
    })

    it('refuses depth 4 of 3', () => {
      const deep = parent({ ancestors: ['root', 'one', 'alice'], chain_depth: 3 })
      expect(refusal(childInput({ parent: deep }))).toMatchObject({ code: 'E002', details: { depth: 4, max_chain_depth: 3 } })
    })

    it("does not exceed the parent's max_chain_depth", () => {
      expect(refusal(childInput({ parent: parent({ max_chain_depth: 1 }) }))).toMatchObject({
        code: 'E002',
        details: { max_chain_depth: 1 },
      })
    })

    it('takes nothing from a chain that the client claims', () => {
      const forged = childRequest({ ancestors: [], origination_chain: [], chain_depth: 1, subagent_id: 'alice' } as Partial<RequestControl>)
      const agents = { originator: agent('audit'), subagent: agent('alice'), open: true }
      expect(refusal(childInput({ request: forged, agents }))).toMatchObject({ code: 'E003' })
    })
  })

  describe('hold', () => {
    const hold = { version: 1, document: { defaults: { hold_before_dispatch: true, approval_expires_ms: 5_000 } } }

    it('holds until the approval expires', () => {
      expect(held({ policy: hold }).expires_ms).toBe(5_000)
      expect(held({ request: request({ override: { hold_before_dispatch: true } }) }).expires_ms).toBe(86_400_000)
    })

    it('holds a child no longer than its parent lives', () => {
      const child = held(childInput({ policy: hold, now: T0 + 28_000, requested_at: T0 + 28_000 }))
      expect(child.expires_ms).toBe(2_000)
      expect(child.control.parent_deadline).toBe(T0 + 30_000)
      expect(held(childInput({ policy: hold, now: T0 + 29_999.5, requested_at: T0 + 29_999 })).expires_ms).toBe(1)
    })

    it('admits what was approved, within what is left', () => {
      const root = held({ policy: hold, request: request({ priority: 'low' }) }).control
      const later = approveHeld(root, T0 + 80_000_000)
      expect(later).toMatchObject({ kind: 'admit', control: { priority: 'low', timeout_ms: 30_000 } })
      expect(later.kind === 'admit' && later.keep({ name: 'messages' })).toBe(true)
      const child = held(childInput({ policy: hold })).control
      expect(approveHeld(child, T0 + 20_000)).toMatchObject({ kind: 'admit', control: { timeout_ms: 10_000 } })
      expect(approveHeld(child, T0 + 30_000)).toMatchObject({ kind: 'refuse', error: { code: 'E013', details: { approval: 'expired' } } })
    })
  })
})
