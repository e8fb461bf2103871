import type { WorkControl } from '@passover/schemas'
import { describe, expect, it } from 'vitest'
import { childInput, childRequest, parent, refusal } from '../../testing/admissions.js'
import { admitInput, agent, control, part, request, T0 } from '../../testing/samples.js'
import { admit } from './admit.js'
import type { AdmitInput } from './types.js'

describe('admission by the policy', () => {
  const pair = (entry: object, more: Partial<AdmitInput> = {}) => ({
    policy: { version: 9, document: { pairs: { 'alice->audit': entry } } },
    ...more,
  })

  const rule = (field: string) => ({ policy_name: 'pair alice->audit', policy_version: 9, policy_path: `$.pairs["alice->audit"].${field}` })

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
    expect(refusal({ request: request({ auto_apply_on_success: true }) })).toMatchObject({ code: 'E013', details: { field: 'auto_apply' } })
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
        'The context has 1015 bytes, 15 more than the 1000 allowed. Its largest parts (bytes): file:b 700, file:a 300, context 10, file:c0 1, file:c1 1',
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
    held: (limit) => (count < limit ? undefined : { count, retry_after_ms: 60_000 }),
  })
  const audit = (entry: object): AdmitInput['policy'] => ({ version: 1, document: { subagents: { audit: entry } } })

  it.each<[string, Partial<AdmitInput>, object]>([
    ['pair', pair({ max_passes_per_minute: 2 }), { field: 'max_passes_per_minute', limit: 2, count: 3, retry_after_ms: 1_234 }],
    ['pair', pair({ max_active: 3 }), { field: 'max_active', limit: 3, count: 3 }],
    ['subagent', { policy: audit({ max_active: 1 }) }, { field: 'max_active', limit: 1 }],
    ['subagent', { policy: audit({ max_passes_per_minute: 1 }) }, { field: 'max_passes_per_minute', limit: 1 }],
    [
      'share',
      { policy: audit({ max_active: 5 }) },
      { field: 'max_active', limit: 3, of: 5, mend: expect.stringContaining('alice->audit') },
    ],
    ['share', { policy: audit({ max_passes_per_minute: 6 }) }, { field: 'max_passes_per_minute', limit: 3, of: 6, retry_after_ms: 1_234 }],
    ['session', pair({ max_passes_per_session: 2 }), { field: 'max_passes_per_session', limit: 2, count: 3 }],
  ])('refuses beyond a limit of the %s (E014)', (scope, input, details) => {
    expect(refusal({ ...input, counts: counts(3) })).toMatchObject({ code: 'E014', details: { scope, ...details } })
  })

  it('a session has 1,000 passes where nobody says otherwise', () => {
    expect(refusal({ counts: counts(1_000) })).toMatchObject({ details: { field: 'max_passes_per_session', limit: 1_000 } })
    expect(admit(admitInput({ counts: counts(999) })).kind).toBe('admit')
  })

  it('holds so many passes of one originator and no more, 1,000 where nobody says otherwise (E014)', () => {
    const held = (count: number, entry: object = {}, ready = true) =>
      admit(admitInput(pair({ hold_before_dispatch: true, ...entry }, { counts: counts(count, ready) })))
    expect(held(999).kind).toBe('hold')
    expect(held(1_000)).toMatchObject({
      kind: 'refuse',
      error: {
        code: 'E014',
        message: "1000 passes of alice wait for a person's approval; the limit is 1000 (max_held)",
        details: {
          field: 'max_held',
          scope: 'originator',
          limit: 1_000,
          count: 1_000,
          retry_after_ms: 60_000,
          mend: expect.stringContaining('passover list --from alice --status held'),
        },
      },
    })
    expect(held(2, { max_held: 3 }).kind).toBe('hold')
    expect(held(3, { max_held: 3 })).toMatchObject({ error: { details: { limit: 3, policy_path: '$.pairs["alice->audit"].max_held' } } })
    // It is known only when everything stored was read; a pass that is not held asks nobody.
    expect(held(0, {}, false).kind).toBe('later')
    expect(held(999, { hold_before_dispatch: false }, false).kind).toBe('admit')
  })

  it('bounds the open passes of every pair without a max_active of its own, at 10,000 where nobody says otherwise (E014)', () => {
    const open = (count: number, entry: object = {}, ready = true) => {
      const { policy } = pair({ max_passes_per_session: 1_000_000, ...entry })
      return admit(admitInput({ policy, counts: counts(count, ready) }))
    }
    expect(open(9_999).kind).toBe('admit')
    expect(open(10_000)).toMatchObject({
      kind: 'refuse',
      error: {
        code: 'E014',
        message: '10000 passes from alice to audit are open; the limit is 10000 (max_open)',
        details: {
          field: 'max_open',
          scope: 'pair',
          limit: 10_000,
          count: 10_000,
          mend: 'try again later, cancel some passes (passover cancel --from alice --to audit --all), or raise max_open',
        },
      },
    })
    expect(open(10_000, { max_open: 10_001 }).kind).toBe('admit')
    expect(open(3, { max_open: 3 })).toMatchObject({ error: { details: { limit: 3, policy_path: '$.pairs["alice->audit"].max_open' } } })
    expect(open(10_000, { max_active: 10_001 }).kind).toBe('admit')
    // Before everything stored was read, only a pair that seems to have reached the bound waits.
    expect(open(9_999, {}, false).kind).toBe('admit')
    expect(open(10_000, {}, false).kind).toBe('later')
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
