import {
  type AgentPairOverride,
  type AgentRecord,
  agentPairPreference,
  effectivePolicy,
  type PassOverPreferences,
  passOverPreferences,
  policyDefaults,
  subagentPreference,
} from '@passover/schemas'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { naivePolicy, type PolicyCase, policyCases, TABLE } from '../../testing/naive-policy.js'
import { agent } from '../../testing/samples.js'
import { POLICY_FIELDS, SYSTEM_DEFAULTS } from './fields.js'
import { type PolicyInput, type PolicyVerdict, resolvePolicy } from './resolve-policy.js'

const LETTER = { o: 'override', p: 'pair', s: 'subagent', g: 'global' } as const
const SCHEMAS: Record<string, object> = { p: agentPairPreference.shape, s: subagentPreference.shape, g: policyDefaults.shape }

function resolve(one: PolicyCase): PolicyVerdict {
  const document = {
    ...(one.global ? { defaults: one.global } : {}),
    pairs: { ...(one.pair ? { 'alice->audit': one.pair } : {}), 'bob->audit': { enabled: false } },
    subagents: { ...(one.subagent ? { audit: one.subagent } : {}), scout: { can_receive_passes: false } },
  } as PassOverPreferences
  const record = one.registry ? agent('audit', {}, { defaults: one.registry as AgentRecord['defaults'] }) : agent('audit')
  const input: PolicyInput = {
    from: 'alice',
    to: 'audit',
    agent: record,
    request: one.own,
    override: one.override as AgentPairOverride | undefined,
  }
  return resolvePolicy(document, input)
}

describe('POLICY_FIELDS', () => {
  it('has the fields of the table and no other', () => {
    expect(Object.keys(POLICY_FIELDS).sort()).toEqual(TABLE.map(([field]) => field).sort())
    expect(Object.keys(effectivePolicy.shape).sort()).toEqual(Object.keys(POLICY_FIELDS).sort())
  })

  it.each(TABLE)('%s: levels %s, narrower is %s, default %j', (field, levels, narrower, standard) => {
    const row = POLICY_FIELDS[field as keyof typeof POLICY_FIELDS]
    expect(row.levels).toEqual([...levels].map((letter) => LETTER[letter as keyof typeof LETTER]))
    expect(row.narrower).toBe(narrower)
    expect((SYSTEM_DEFAULTS as Record<string, unknown>)[field]).toEqual(standard)
  })

  it.each(TABLE)('%s may be written in a file at exactly its levels', (field, levels) => {
    for (const letter of 'psg') {
      const name = letter === 'g' && field === 'require_user_approval' ? 'require_confirmation' : field
      const reasonOfSubagent = field === 'reason' && letter === 's'
      expect([letter, name in (SCHEMAS[letter] ?? {})]).toEqual([letter, levels.includes(letter) || reasonOfSubagent])
    }
  })
})

describe('resolvePolicy', () => {
  it('gives the system defaults for an empty policy', () => {
    const verdict = resolvePolicy({}, { from: 'alice', to: 'audit' })
    if (!verdict.ok) throw new Error('refused')
    expect(verdict.value).toMatchObject({ policy_name: 'system', overridden: false })
    expect(verdict.value.effective).toEqual({ ...SYSTEM_DEFAULTS, max_compute_time_ms: 30_000 })
    expect(new Set(Object.values(verdict.value.sources))).toEqual(new Set(['system']))
    expect(effectivePolicy.safeParse(verdict.value.effective).success).toBe(true)
  })

  it('resolves the sample configuration', () => {
    const policy = passOverPreferences.parse({
      defaults: { auto_return: false, auto_apply: false, timeout_ms: 30_000, max_chain_depth: 3, require_confirmation: false },
      pairs: {
        'alice->audit': { enabled: true, auto_return: true, timeout_ms: 60_000, notify_on_return: 'always', created_at: 1_700_000_000 },
        'scout->audit': { enabled: false, reason: 'conflicting specializations' },
      },
      subagents: { audit: { can_receive_passes: true, can_modify_files: false, can_run_tools: true, max_compute_time_ms: 60_000 } },
      audit: { log_all_passes: true },
    })
    const alice = resolvePolicy(policy, { from: 'alice', to: 'audit' })
    expect(alice).toMatchObject({
      ok: true,
      value: {
        policy_name: 'pair alice->audit',
        effective: { auto_return: true, timeout_ms: 60_000, require_user_approval: false, max_compute_time_ms: 60_000 },
        sources: { auto_return: 'pair', require_user_approval: 'global', max_compute_time_ms: 'subagent', pass_files: 'system' },
      },
    })
    expect(resolvePolicy(policy, { from: 'scout', to: 'audit' })).toMatchObject({
      value: { effective: { enabled: false, reason: 'conflicting specializations' } },
    })
    expect(resolvePolicy(policy, { from: 'bob', to: 'audit' })).toMatchObject({ value: { policy_name: 'subagent audit' } })
    expect(resolvePolicy(policy, { from: 'bob', to: 'scout' })).toMatchObject({ value: { policy_name: 'defaults' } })
  })

  it('says the same as a naive reading of the table, for thousands of policies', () => {
    let accepted = 0
    fc.assert(
      fc.property(policyCases, (one) => {
        const verdict = resolve(one)
        const expected = naivePolicy(one)
        if ('refused' in expected) {
          if (verdict.ok) throw new Error(`accepted, though ${expected.refused} widen`)
          expect(verdict.error.code).toBe('E013')
          expect(expected.refused).toContain(verdict.error.details?.field)
          return
        }
        if (!verdict.ok) throw new Error(verdict.error.message)
        accepted += 1
        const { effective, sources, policy_name, overridden } = verdict.value
        expect(effective).toEqual(expected.effective)
        expect(sources).toEqual(expected.sources)
        expect({ policy_name, overridden }).toEqual({ policy_name: expected.policy_name, overridden: expected.overridden })
      }),
      { numRuns: 3_000 },
    )
    expect(accepted).toBeGreaterThan(300)
  }, 60_000)

  it('takes the inline override before the request, and both before the pair', () => {
    const policy: PassOverPreferences = { pairs: { 'alice->audit': { timeout_ms: 10, auto_apply: true } } }
    const ask = (input: Partial<PolicyInput>) => resolvePolicy(policy, { from: 'alice', to: 'audit', ...input })
    expect(ask({ request: { timeout_ms: 9 } })).toMatchObject({
      value: { effective: { timeout_ms: 9, max_compute_time_ms: 9 }, sources: { timeout_ms: 'request' }, overridden: true },
    })
    expect(ask({ request: { timeout_ms: 9 }, override: { timeout_ms: 8 } })).toMatchObject({
      value: { effective: { timeout_ms: 8 }, sources: { timeout_ms: 'override' } },
    })
    expect(ask({ request: { auto_apply_on_success: false } })).toMatchObject({
      value: { effective: { auto_apply: false }, overridden: true },
    })
    expect(ask({ request: { auto_apply_on_success: true, timeout_ms: 10 } })).toMatchObject({ value: { overridden: false } })
    expect(ask({ override: { timeout_ms: undefined }, request: {} })).toMatchObject({
      value: { effective: { timeout_ms: 10 }, overridden: false },
    })
  })

  it.each<[string, AgentPairOverride]>([
    ['auto_apply', { auto_apply: true }],
    ['auto_review', { auto_review: true }],
    ['require_user_approval', { require_user_approval: false }],
    ['max_context_size_bytes', { max_context_size_bytes: 2 ** 30 }],
  ])('refuses to widen %s, naming it', (field, inline) => {
    expect(resolvePolicy({}, { from: 'a', to: 'b', override: inline })).toMatchObject({
      ok: false,
      error: { code: 'E013', details: { field } },
    })
    const policy: PassOverPreferences = { pairs: { 'a->b': { allow_widening: [field as never] } } }
    expect(resolvePolicy(policy, { from: 'a', to: 'b', override: inline })).toMatchObject({ ok: true, value: { effective: inline } })
  })

  it('refuses what no request may set', () => {
    for (const field of ['can_modify_files', 'enabled', 'constructor', 'nonsense']) {
      const inline = { [field]: true } as AgentPairOverride
      expect(resolvePolicy({}, { from: 'a', to: 'b', override: inline })).toMatchObject({
        ok: false,
        error: { code: 'E013', details: { field } },
      })
    }
  })

  it('lets nothing exceed max_timeout_ms', () => {
    const policy: PassOverPreferences = { defaults: { max_timeout_ms: 50, timeout_ms: 70 } }
    expect(resolvePolicy(policy, { from: 'a', to: 'b' })).toMatchObject({
      value: { effective: { timeout_ms: 50 }, sources: { timeout_ms: 'global' } },
    })
    expect(resolvePolicy(policy, { from: 'a', to: 'b', request: { timeout_ms: 60 } })).toMatchObject({
      ok: false,
      error: { details: { field: 'timeout_ms', allowed: 50 } },
    })
  })

  it('merges a budget number by number', () => {
    const policy: PassOverPreferences = { pairs: { 'a->b': { budget: { passes: 3, tokens: 100 } } } }
    expect(resolvePolicy(policy, { from: 'a', to: 'b', override: { budget: { passes: 2, time_ms: 9 } } })).toMatchObject({
      value: { effective: { budget: { passes: 2, tokens: 100, time_ms: 9 } } },
    })
    expect(resolvePolicy(policy, { from: 'a', to: 'b', override: { budget: { tokens: 101 } } })).toMatchObject({
      ok: false,
      error: { details: { field: 'budget' } },
    })
  })

  it('is not confused by an agent named like a property of objects', () => {
    const policy: PassOverPreferences = { pairs: {}, subagents: {} }
    expect(resolvePolicy(policy, { from: 'alice', to: 'constructor' })).toMatchObject({ value: { policy_name: 'system' } })
  })

  it('resolves anew for another document, pair or record, and only then', () => {
    const policy: PassOverPreferences = { defaults: { timeout_ms: 1 } }
    const once = resolvePolicy(policy, { from: 'a', to: 'b' })
    const twice = resolvePolicy(policy, { from: 'a', to: 'b' })
    expect(once.ok && twice.ok && once.value === twice.value).toBe(true)
    const record = agent('b', {}, { defaults: { timeout_ms: 2 } })
    expect(resolvePolicy(policy, { from: 'a', to: 'b', agent: record })).toMatchObject({
      value: { effective: { timeout_ms: 2 }, sources: { timeout_ms: 'registry' } },
    })
    expect(resolvePolicy(policy, { from: 'a', to: 'c' })).toMatchObject({ value: { effective: { timeout_ms: 1 } } })
    expect(resolvePolicy({ defaults: { timeout_ms: 3 } }, { from: 'a', to: 'b' })).toMatchObject({
      value: { effective: { timeout_ms: 3 } },
    })
  })

  it("remembers what a request's own settings make of it, and takes none for another's", () => {
    const policy: PassOverPreferences = { defaults: { max_timeout_ms: 1_000 } }
    const ask = (request: PolicyInput['request']) => resolvePolicy(policy, { from: 'a', to: 'b', request })
    const once = ask({ timeout_ms: 7 })
    expect(ask({ timeout_ms: 7 })).toBe(once)
    expect(once).toMatchObject({ ok: true, value: { effective: { timeout_ms: 7 }, sources: { timeout_ms: 'request' }, overridden: true } })
    expect(ask({ timeout_ms: 8 })).toMatchObject({ value: { effective: { timeout_ms: 8 } } })
    expect(ask({ timeout_ms: 5_000 })).toMatchObject({ ok: false, error: { code: 'E013' } })
    for (let timeout_ms = 1; timeout_ms <= 1_000; timeout_ms++) ask({ timeout_ms, auto_apply_on_success: false })
    expect(ask({ timeout_ms: 7 })).toEqual(once)
    expect(ask({ timeout_ms: 7 })).not.toBe(once)
  })

  it('forgets pairs when there are too many', () => {
    const policy: PassOverPreferences = { defaults: { timeout_ms: 1 } }
    const first = resolvePolicy(policy, { from: 'a', to: 'b' })
    for (let i = 0; i < 10_000; i++) resolvePolicy(policy, { from: `x${i}`, to: 'b' })
    const again = resolvePolicy(policy, { from: 'a', to: 'b' })
    expect(again).toEqual(first)
    expect(again.ok && first.ok && again.value === first.value).toBe(false)
  })
})
