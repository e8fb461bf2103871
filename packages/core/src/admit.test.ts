import { type PassError, type RequestControl, type WorkControl, workControl } from '@passover/schemas'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { admitInput, agent, control, KEY, part, RULES, request, step, T0, timedId, WINDOW } from '../testing/samples.js'
import { admit, approveHeld } from './admit.js'
import type { AdmitInput, ParentPass } from './admit-input.js'
import { foldJournal } from './lifecycle.js'

function refusal(more: Partial<AdmitInput>): PassError {
  const admission = admit(admitInput(more))
  if (admission.kind !== 'refuse') throw new Error(`not refused but ${admission.kind}`)
  return admission.error
}

function held(more: Partial<AdmitInput>): { control: WorkControl; expires_ms: number } {
  const admission = admit(admitInput(more))
  if (admission.kind !== 'hold') throw new Error(`not held but ${admission.kind}`)
  return admission
}

const PARENT_WORK = step('work', 20, { time: T0 })
const CHILD_ID = timedId(T0, 'child000000000')

/** The pass alice → audit, open; `change` its control. */
function parent(change: Partial<WorkControl> = {}, steps = [PARENT_WORK]): ParentPass {
  return { journal: foldJournal(steps, RULES).journal, control: { ...control(), ...change } }
}

/** Audit passes over to scout within alice → audit. */
function childRequest(more: Partial<RequestControl> = {}): RequestControl {
  const named = { originator: 'alice', subagent: 'audit', id: KEY.id, return_id: 'return-1', proof: 20 }
  return request({ id: CHILD_ID, originating_agent_id: 'audit', subagent_id: 'scout', parent: named, ...more })
}

function childInput(more: Partial<AdmitInput> = {}): Partial<AdmitInput> {
  const agents = { originator: agent('audit', { originates: 'within_a_pass' }), subagent: agent('scout'), open: false }
  return { request: childRequest(), parent: parent(), agents, now: T0 + 1_000, requested_at: T0 + 900, return_id: 'return-2', ...more }
}

describe('admit', () => {
  it('decides everything about a root pass', () => {
    const admission = admit(admitInput())
    if (admission.kind !== 'admit') throw new Error(admission.kind)
    expect(workControl.parse(admission.control)).toEqual(admission.control)
    expect(admission.slot).toBe('medium')
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
      slot: 'high',
      control: {
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

  describe('parent', () => {
    it('bounds a child by its rest', () => {
      const child = control(childInput())
      expect(child).toMatchObject({
        parent: KEY,
        proof: 20,
        parent_deadline: T0 + 30_000,
        timeout_ms: 29_000,
        chain_depth: 2,
        ancestors: ['alice', 'audit'],
        root: KEY,
        origination_chain: [
          { agent_id: 'alice', action: 'initiated' },
          { agent_id: 'audit', timestamp: T0 + 900, action: 'delegated' },
        ],
      })
      expect(workControl.parse(child)).toEqual(child)
      expect(control(childInput({ request: childRequest({ timeout_ms: 500 }) })).timeout_ms).toBe(500)
      expect(control(childInput({ parent: parent({ user_id: 'bob', trace_id: 't' }) }))).toMatchObject({ user_id: 'bob', trace_id: 't' })
    })

    const wrong = { originator: 'alice', subagent: 'audit', id: KEY.id, return_id: 'return-1', proof: 20 }
    it.each<[string, Partial<AdmitInput>, string]>([
      [
        'a parent that works for someone else',
        { request: childRequest({ parent: { ...wrong, subagent: 'mallory' } }) },
        'only its subagent may pass over within it',
      ],
      ['an unknown parent', { parent: undefined }, 'there is no such pass'],
      ['another parent than the one read', { parent: parent({ id: 'another-one' }) }, 'there is no such pass'],
      ['another originator of it', { parent: parent({ originating_agent_id: 'bob' }) }, 'there is no such pass'],
      ['another subagent of it', { parent: parent({ subagent_id: 'bob' }) }, 'there is no such pass'],
      ['a parent that has ended', { parent: parent({}, [PARENT_WORK, step('return', 21)]) }, 'it is not open'],
      ['a parent that is held', { parent: parent({}, [step('held', 20)]) }, 'it is not open'],
      ['a wrong return_id', { request: childRequest({ parent: { ...wrong, return_id: 'guessed' } }) }, 'wrong return_id'],
      ['a wrong proof', { request: childRequest({ parent: { ...wrong, proof: 19 } }) }, 'the proof is not of its newest attempt'],
      ['an earlier attempt', { parent: parent({}, [PARENT_WORK, step('fence', 22)]) }, 'the proof is not of its newest attempt'],
      ['a parent past its deadline', { now: T0 + 30_000, requested_at: T0 + 29_000 }, 'its deadline has passed'],
    ])('refuses %s with E013', (_, more, why) => {
      expect(refusal(childInput(more))).toMatchObject({ code: 'E013', details: { why } })
    })

    it('takes the proof of the newest attempt, also where an ignored step came after it', () => {
      const journal = [PARENT_WORK, step('fence', 22), step('fence', 23)]
      expect(control(childInput({ request: childRequest({ parent: { ...wrong, proof: 22 } }), parent: parent({}, journal) })).proof).toBe(
        22,
      )
    })
  })

  describe('policy', () => {
    const pair = (entry: object, more: Partial<AdmitInput> = {}) => ({
      policy: { version: 9, document: { pairs: { 'alice->audit': entry } } },
      ...more,
    })

    const rule = (field: string) => ({
      policy_name: 'pair alice->audit',
      policy_version: 9,
      policy_path: `$.pairs["alice->audit"].${field}`,
    })

    it('names the rule of a refusal with its place, wherever it is said', () => {
      const under = (document: AdmitInput['policy']['document'], more: Partial<AdmitInput> = {}) =>
        refusal({ policy: { version: 9, document }, ...more }).details
      const audit = { subagents: { audit: { can_receive_passes: false } } }
      expect(under(audit)).toMatchObject({ policy_name: 'subagent audit', policy_path: '$.subagents.audit.can_receive_passes' })
      const wide = { request: request({ override: { pass_files: true } }) }
      expect(under({ defaults: { pass_files: false } }, wide)).toMatchObject({
        field: 'pass_files',
        policy_version: 9,
        policy_path: '$.defaults.pass_files',
      })
      const unapproved = { request: request({ override: { require_user_approval: false } }) }
      expect(under({ defaults: { require_confirmation: true } }, unapproved)).toMatchObject({
        policy_path: '$.defaults.require_confirmation',
      })
      const system = under({}, { request: request({ override: { auto_apply: true } }) })
      expect(system).toMatchObject({ field: 'auto_apply', policy_name: 'system', policy_version: 9 })
      expect(system).not.toHaveProperty('policy_path')
    })

    it('refuses a disabled pair with its reason (E004)', () => {
      expect(refusal(pair({ enabled: false, reason: 'on leave' }))).toEqual({
        code: 'E004',
        message: 'The pair alice->audit is disabled: on leave',
        details: { pair: 'alice->audit', reason: 'on leave', ...rule('enabled') },
      })
      expect(refusal(pair({ enabled: false }))).toEqual({
        code: 'E004',
        message: 'The pair alice->audit is disabled',
        details: { pair: 'alice->audit', ...rule('enabled') },
      })
    })

    it('refuses a widening override (E013)', () => {
      expect(refusal({ request: request({ override: { auto_apply: true } }) })).toMatchObject({
        code: 'E013',
        details: { field: 'auto_apply' },
      })
      expect(refusal({ request: request({ auto_apply_on_success: true }) })).toMatchObject({
        code: 'E013',
        details: { field: 'auto_apply' },
      })
    })

    it('drops the parts that policy does not pass', () => {
      const kept = (entry: object) => {
        const admission = admit(admitInput(pair(entry)))
        if (admission.kind !== 'admit') throw new Error(admission.kind)
        const left = ['context', 'messages', 'tool_results', 'file:a.ts'].filter((name) => admission.keep({ name }))
        return [left, admission.control.context_bytes]
      }
      expect(kept({})).toEqual([['context', 'messages', 'tool_results', 'file:a.ts'], 600])
      expect(kept({ pass_context: false })).toEqual([['context', 'tool_results', 'file:a.ts'], 400])
      expect(kept({ pass_files: false })).toEqual([['context', 'messages', 'tool_results'], 300])
    })

    // nats.py#896
    it('refuses what is too large with both sizes and what weighs most (E012)', () => {
      const parts = [
        part('context', 10),
        part('file:b', 700),
        part('file:a', 300),
        ...Array.from({ length: 5 }, (_, i) => part(`file:c${i}`, 1)),
      ]
      expect(refusal(pair({ max_context_size_bytes: 1_000 }, { parts }))).toEqual({
        code: 'E012',
        message:
          'The context has 1015 bytes, 15 more than the 1000 allowed. What weighs most (bytes): file:b 700, file:a 300, context 10, file:c0 1, file:c1 1',
        details: {
          size_bytes: 1_015,
          limit_bytes: 1_000,
          over_bytes: 15,
          ...rule('max_context_size_bytes'),
          heaviest: [
            { name: 'file:b', size_bytes: 700 },
            { name: 'file:a', size_bytes: 300 },
            { name: 'context', size_bytes: 10 },
            { name: 'file:c0', size_bytes: 1 },
            { name: 'file:c1', size_bytes: 1 },
          ],
        },
      })
      expect(admit(admitInput(pair({ max_context_size_bytes: 1_015 }, { parts }))).kind).toBe('admit')
      expect(admit(admitInput(pair({ max_context_size_bytes: 10, pass_files: false }, { parts }))).kind).toBe('admit')
    })

    it('refuses what is over its token budget (E012)', () => {
      expect(refusal({ request: request({ budget: { tokens: 149 } }) })).toMatchObject({
        code: 'E012',
        details: { size_tokens: 150, limit_tokens: 149, over_tokens: 1 },
      })
      expect(admit(admitInput({ request: request({ budget: { tokens: 150 } }) })).kind).toBe('admit')
    })

    it('refuses a request that waited longer than its timeout (E010)', () => {
      expect(refusal({ now: T0 + 30_000 })).toMatchObject({ code: 'E010', details: { timeout_ms: 30_000, waited_ms: 30_000 } })
      expect(admit(admitInput({ now: T0 + 29_999 })).kind).toBe('admit')
    })

    /** Counts that are all reached, or none. */
    const counts = (count: number, ready = true): AdmitInput['counts'] => ({
      ready,
      rate: (_scope, field, limit) => {
        if (count < limit) return undefined
        return field === 'max_active' ? { count } : { count, retry_after_ms: 1_234 }
      },
      session: (_token, limit) => (count < limit ? undefined : { count }),
    })
    const audit = (entry: object): AdmitInput['policy'] => ({ version: 1, document: { subagents: { audit: entry } } })

    it.each<[string, Partial<AdmitInput>, object]>([
      ['pair', pair({ max_passes_per_minute: 2 }), { field: 'max_passes_per_minute', limit: 2, count: 3, retry_after_ms: 1_234 }],
      ['pair', pair({ max_active: 3 }), { field: 'max_active', limit: 3, count: 3 }],
      ['subagent', { policy: audit({ max_active: 1 }) }, { field: 'max_active', limit: 1 }],
      ['subagent', { policy: audit({ max_passes_per_minute: 1 }) }, { field: 'max_passes_per_minute', limit: 1 }],
      ['session', pair({ max_passes_per_session: 2 }), { field: 'max_passes_per_session', limit: 2, count: 3 }],
    ])('refuses beyond a limit of the %s (E014)', (scope, input, details) => {
      expect(refusal({ ...input, counts: counts(3) })).toMatchObject({ code: 'E014', details: { scope, ...details } })
    })

    it('a session has 1,000 passes where nobody says otherwise', () => {
      expect(refusal({ counts: counts(1_000) })).toMatchObject({ details: { field: 'max_passes_per_session', limit: 1_000 } })
      expect(admit(admitInput({ counts: counts(999) })).kind).toBe('admit')
    })

    it("both bind: a pair's larger limit does not lift its subagent's, nor the registry's", () => {
      const document = { pairs: { 'alice->audit': { max_active: 9 } }, subagents: { audit: { max_active: 3 } } }
      expect(refusal({ policy: { version: 1, document }, counts: counts(3) }).details).toMatchObject({ scope: 'subagent', limit: 3 })
      const agents = { subagent: { ...agent('audit'), defaults: { max_active: 2 } }, open: true }
      expect(refusal({ ...pair({ max_active: 9 }), agents, counts: counts(3) }).details).toMatchObject({ scope: 'subagent', limit: 2 })
    })

    it('waits for counts that are not there yet, where a rate is limited only', () => {
      const unready = counts(0, false)
      expect(admit(admitInput(pair({ max_active: 1 }, { counts: unready })))).toEqual({ kind: 'later' })
      expect(admit(admitInput({ counts: unready })).kind).toBe('admit')
    })

    it('admits below its limits', () => {
      const limits = { max_passes_per_minute: 2, max_active: 2, max_passes_per_session: 2 }
      expect(admit(admitInput(pair(limits, { counts: counts(1) }))).kind).toBe('admit')
      expect(admit(admitInput(pair(limits))).kind).toBe('admit')
    })

    it("narrows a child's budget to its parent's", () => {
      const child = (budget: WorkControl['budget'], own?: WorkControl['budget']) =>
        childInput({ parent: parent({ budget }), request: childRequest({ budget: own }) })
      expect(control(child({ passes: 3, tokens: 1_000 }, { passes: 9, tokens: 500, time_ms: 700 }))).toMatchObject({
        budget: { passes: 2, tokens: 500, time_ms: 700 },
        timeout_ms: 700,
      })
      expect(control(child({ tokens: 500 })).budget).toEqual({ tokens: 500 })
      expect(refusal(child({ passes: 0 }))).toMatchObject({ code: 'E014', details: { field: 'budget.passes' } })
      expect(refusal(child({ time_ms: 0 }))).toMatchObject({ code: 'E014', details: { field: 'budget.time_ms' } })
    })
  })

  describe('rights', () => {
    const modify = {
      version: 1,
      document: { subagents: { audit: { can_modify_files: true, tools: ['read', 'edit'] }, scout: { can_modify_files: true } } },
    }

    it('are what pair and subagent allow, narrowed by constraints', () => {
      expect(control({ policy: modify }).rights).toEqual({
        can_modify_files: true,
        can_run_tools: true,
        tools: ['read', 'edit'],
        constraints: [],
      })
      expect(control({ policy: modify, request: request({ constraints: ['read_only', 'no_tools', 'read_only'] }) }).rights).toEqual({
        can_modify_files: false,
        can_run_tools: false,
        tools: ['read', 'edit'],
        constraints: ['read_only', 'no_tools'],
      })
    })

    it("never exceed the parent's", () => {
      const rights = { can_modify_files: false, can_run_tools: false, tools: ['edit', 'bash'], constraints: ['no_external_calls'] }
      const document = { subagents: { scout: { can_modify_files: true, tools: ['read', 'edit'] } } }
      expect(control(childInput({ parent: parent({ rights }), policy: { version: 1, document } })).rights).toEqual({
        ...rights,
        tools: ['edit'],
      })
      expect(control(childInput({ parent: parent({ rights }) })).rights.tools).toEqual(['edit', 'bash'])
      const readOnly = { can_modify_files: true, can_run_tools: true, constraints: ['read_only'] }
      expect(control(childInput({ parent: parent({ rights: readOnly }), policy: modify })).rights).toEqual({
        ...readOnly,
        can_modify_files: false,
      })
    })

    it('only ever narrow along a chain', () => {
      const tools = fc.option(fc.subarray(['read', 'edit', 'bash']), { nil: undefined })
      const some = fc.record({ can_modify_files: fc.boolean(), can_run_tools: fc.boolean(), tools }, { requiredKeys: [] })
      fc.assert(
        fc.property(some, some, some, fc.subarray(['read_only', 'no_tools', 'x']), (above, pair, subagent, constraints) => {
          const rights = { can_modify_files: true, can_run_tools: true, constraints: [], ...above }
          const document = { pairs: { 'audit->scout': pair }, subagents: { scout: subagent } } as AdmitInput['policy']['document']
          const given = control(
            childInput({
              parent: parent({ rights: rights as WorkControl['rights'] }),
              policy: { version: 1, document },
              request: childRequest({ constraints }),
            }),
          ).rights
          for (const limit of [above, pair, subagent]) {
            if (limit.can_modify_files === false) expect(given.can_modify_files).toBe(false)
            if (limit.can_run_tools === false) expect(given.can_run_tools).toBe(false)
            if (limit.tools) expect(given.tools?.every((tool) => limit.tools?.includes(tool))).toBe(true)
          }
          if (constraints.includes('read_only')) expect(given.can_modify_files).toBe(false)
          expect(given.constraints).toEqual(constraints)
        }),
      )
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
      expect(later).toMatchObject({ kind: 'admit', slot: 'low', control: { timeout_ms: 30_000 } })
      expect(later.kind === 'admit' && later.keep({ name: 'messages' })).toBe(true)
      const child = held(childInput({ policy: hold })).control
      expect(approveHeld(child, T0 + 20_000)).toMatchObject({ kind: 'admit', control: { timeout_ms: 10_000 } })
      expect(approveHeld(child, T0 + 30_000)).toMatchObject({ kind: 'refuse', error: { code: 'E013', details: { approval: 'expired' } } })
    })
  })
})
