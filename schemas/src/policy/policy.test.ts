import { describe, expect, it } from 'vitest'
import { configSample } from '../../../test/support/builders/examples.js'
import { agentPairOverride, budget, pairKey, parsePairKey, passOverPreferences, widenable } from './policy.js'

describe('the configuration file', () => {
  it('the sample is read, its seconds as ms, its names from the keys', () => {
    const given = JSON.parse(configSample)
    const parsed = passOverPreferences.parse(given)
    expect(parsed.pairs?.['alice->audit']).toEqual({
      ...given.pairs['alice->audit'],
      from: 'alice',
      to: 'audit',
      created_at: 1_700_000_000_000,
      updated_at: 1_700_000_000_000,
    })
    expect(parsed.pairs?.['scout->audit']).toEqual({ from: 'scout', to: 'audit', enabled: false, reason: 'conflicting specializations' })
    expect(parsed.subagents?.audit).toEqual({ subagent_id: 'audit', ...given.subagents.audit })
    expect(parsed.defaults).toEqual(given.defaults)
    expect(parsed.audit).toEqual(given.audit)
    expect(passOverPreferences.parse(parsed)).toEqual(parsed)
  })

  it('may be empty, and may name its schema for an editor', () => {
    expect(passOverPreferences.parse({})).toEqual({})
    expect(
      passOverPreferences.parse({ $schema: './pass-over-preferences.json', pairs: {}, subagents: {}, defaults: {}, audit: {} }),
    ).toHaveProperty('pairs')
  })

  it('leaves times in ms as they are', () => {
    const at = (created_at: number) => passOverPreferences.parse({ pairs: { 'a->b': { created_at } } }).pairs?.['a->b']?.created_at
    expect(at(1_700_000_000_123)).toBe(1_700_000_000_123)
    expect(at(99_999_999_999)).toBe(99_999_999_999_000)
    expect(at(100_000_000_000)).toBe(100_000_000_000)
  })
})

/** The table of policy fields: field, the levels it may stand at, a value. */
const FIELDS: [field: string, levels: string, value: unknown][] = [
  ['enabled', 'p', false],
  ['reason', 'p s', 'because'],
  ['can_receive_passes', 's', true],
  ['auto_return', 'o p s g', true],
  ['auto_review', 'o p s g', true],
  ['auto_apply', 'o p s g', true],
  ['require_user_approval', 'o p s', true],
  ['require_confirmation', 'g', true],
  ['hold_before_dispatch', 'o p s g', true],
  ['approval_expires_ms', 'p s g', 604_800_000],
  ['timeout_ms', 'o p s g', 86_400_000],
  ['max_timeout_ms', 'g', 1_000],
  ['return_deadline_ms', 'g', 1_000],
  ['max_chain_depth', 'p s g', 5],
  ['max_compute_time_ms', 's', 1_000],
  ['max_memory_mb', 's', 512],
  ['pass_context', 'o p s g', false],
  ['pass_files', 'o p s g', false],
  ['max_context_size_bytes', 'o p s g', 0],
  ['notify_on_return', 'o p s g', 'never'],
  ['can_modify_files', 'p s', true],
  ['can_run_tools', 'p s', false],
  ['tools', 'p s', ['bash']],
  ['validate_output', 's', true],
  ['output_schema', 's', { type: 'object' }],
  ['max_attempts', 's g', 5],
  ['lease_ms', 's g', 1_000],
  ['max_passes_per_minute', 'p s', 60],
  ['max_active', 'p s', 10],
  ['max_passes_per_session', 'p g', 100],
  ['max_held', 'p g', 100],
  ['max_open', 'p g', 100],
  ['budget', 'o p g', { tokens: 5 }],
  ['allow_widening', 'p', ['timeout_ms', 'budget']],
  ['approvers', 'p g', ['maria']],
]

const LEVELS = {
  o: (entry: object) => agentPairOverride.safeParse(entry),
  p: (entry: object) => passOverPreferences.safeParse({ pairs: { 'alice->audit': entry } }),
  s: (entry: object) => passOverPreferences.safeParse({ subagents: { audit: entry } }),
  g: (entry: object) => passOverPreferences.safeParse({ defaults: entry }),
}

describe.each(FIELDS)('%s', (field, levels, value) => {
  it.each(Object.entries(LEVELS))(`stands at ${levels}: level %s`, (level, parse) => {
    const result = parse({ [field]: value })
    expect(result.success).toBe(levels.includes(level))
    if (!levels.includes(level)) expect(result.error?.issues[0]).toMatchObject({ code: 'unrecognized_keys', keys: [field] })
  })

  it('refuses another kind of value', () => {
    const wrong = typeof value === 'object' ? 'x' : {}
    for (const level of levels.split(' ') as (keyof typeof LEVELS)[]) expect(LEVELS[level]({ [field]: wrong }).success).toBe(false)
  })
})

describe('what a file may not say', () => {
  it.each([
    ['an unknown key at the top', { pears: {} }, [], 'pears'],
    ['an unknown default', { defaults: { auto_retrun: true } }, ['defaults'], 'auto_retrun'],
    ['an unknown key of a pair', { pairs: { 'a->b': { colour: 1 } } }, ['pairs', 'a->b'], 'colour'],
    ['an unknown key of a subagent', { subagents: { a: { enabled: true } } }, ['subagents', 'a'], 'enabled'],
    ['an unknown key of audit', { audit: { retention: 3 } }, ['audit'], 'retention'],
    ['an unknown key of a budget', { defaults: { budget: { money: 3 } } }, ['defaults', 'budget'], 'money'],
  ])('%s', (_, document, path, key) => {
    expect(passOverPreferences.safeParse(document).error?.issues[0]).toMatchObject({ code: 'unrecognized_keys', path, keys: [key] })
  })

  it.each([
    ['a pair whose key is none', { pairs: { alice: {} } }, ['pairs', 'alice']],
    ['a pair with spaces', { pairs: { 'alice -> audit': {} } }, ['pairs', 'alice -> audit']],
    ['a pair with the system', { pairs: { 'passover->audit': {} } }, ['pairs', 'passover->audit']],
    ['a pair towards the system', { pairs: { 'audit->passover': {} } }, ['pairs', 'audit->passover']],
    ['a pair that names another originator', { pairs: { 'a->b': { from: 'c' } } }, ['pairs', 'a->b', 'from']],
    ['a pair that names another subagent', { pairs: { 'a->b': { to: 'c' } } }, ['pairs', 'a->b', 'to']],
    ['a subagent that names another', { subagents: { a: { subagent_id: 'b' } } }, ['subagents', 'a', 'subagent_id']],
    ['a subagent whose name is none', { subagents: { 'a.b': {} } }, ['subagents', 'a.b']],
    [
      'an approval that may wait for more than 7 days',
      { defaults: { approval_expires_ms: 604_800_001 } },
      ['defaults', 'approval_expires_ms'],
    ],
    ['a timeout of more than 24 h', { defaults: { max_timeout_ms: 86_400_001 } }, ['defaults', 'max_timeout_ms']],
    ['a depth of nothing', { defaults: { max_chain_depth: 0 } }, ['defaults', 'max_chain_depth']],
    ['a lease that expires at once', { defaults: { lease_ms: 1 } }, ['defaults', 'lease_ms']],
    ['a context of more than 1 GiB', { defaults: { max_context_size_bytes: 1024 ** 3 + 1 } }, ['defaults', 'max_context_size_bytes']],
    [
      'the widening of what cannot be overridden',
      { pairs: { 'a->b': { allow_widening: ['enabled'] } } },
      ['pairs', 'a->b', 'allow_widening', 0],
    ],
  ])('%s', (_, document, path) => {
    expect(passOverPreferences.safeParse(document).error?.issues[0]?.path).toEqual(path)
  })

  it('a pair may repeat what its key says', () => {
    expect(passOverPreferences.safeParse({ pairs: { 'a->b': { from: 'a', to: 'b' } } }).success).toBe(true)
  })
})

it('keys of pairs are written and read', () => {
  expect(parsePairKey(pairKey('alice', 'audit'))).toEqual({ from: 'alice', to: 'audit' })
  for (const key of ['', '->', 'a->', '->b', 'a->b->c', 'a>b', 'a->b\n']) expect(parsePairKey(key)).toBeUndefined()
})

it('an entry with keys without end is refused before they are listed', () => {
  const many = Object.fromEntries(Array.from({ length: 5_000 }, (_, i) => [`k${i}`, 1]))
  for (const parse of Object.values(LEVELS)) {
    expect(parse(many).error?.issues).toEqual([expect.objectContaining({ message: 'has more than 1000 keys' })])
  }
})

it('a budget is counted in whole passes, tokens and milliseconds', () => {
  expect(budget.parse({})).toEqual({})
  for (const field of ['passes', 'tokens', 'time_ms']) {
    expect(budget.safeParse({ [field]: 0 }).success).toBe(true)
    for (const value of [-1, 0.5, '3', null]) expect(budget.safeParse({ [field]: value }).success).toBe(false)
  }
})

it('what can be widened is what can be overridden', () => {
  expect([...widenable.options].sort()).toEqual(Object.keys(agentPairOverride.shape).sort())
})
