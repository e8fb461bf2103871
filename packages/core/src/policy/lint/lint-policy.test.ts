import { type AgentRecord, type PassOverPreferences, passOverPreferences } from '@passover/schemas'
import { describe, expect, it } from 'vitest'
import { agent } from '../../../testing/samples.js'
import { checkPolicy, faultKey } from './lint-policy.js'

type Row = [what: string, document: PassOverPreferences, severity: string, first: string, second: string]

function check(document: PassOverPreferences, agents?: AgentRecord[]) {
  return checkPolicy(passOverPreferences.parse(document), agents && new Map(agents.map((one) => [one.name, one])))
}

const CONFLICTS: Row[] = [
  [
    'a timeout above the maximum',
    { defaults: { max_timeout_ms: 1_000 }, pairs: { 'a->b': { timeout_ms: 1_001 } } },
    'error',
    '$.pairs["a->b"].timeout_ms',
    '$.defaults.max_timeout_ms',
  ],
  [
    'the default timeout above the maximum',
    { defaults: { max_timeout_ms: 1_000, timeout_ms: 2_000 } },
    'error',
    '$.defaults.timeout_ms',
    '$.defaults.max_timeout_ms',
  ],
  [
    'compute time above the maximum',
    { defaults: { max_timeout_ms: 1_000 }, subagents: { b: { max_compute_time_ms: 2_000 } } },
    'error',
    '$.subagents.b.max_compute_time_ms',
    '$.defaults.max_timeout_ms',
  ],
  [
    'a lease longer than the timeout',
    { defaults: { lease_ms: 10_000, timeout_ms: 5_000 } },
    'error',
    '$.defaults.lease_ms',
    '$.defaults.timeout_ms',
  ],
  [
    'a lease longer than the system’s timeout',
    { subagents: { b: { lease_ms: 30_000 } } },
    'error',
    '$.subagents.b.lease_ms',
    "the system's timeout_ms",
  ],
  [
    'a subagent’s lease longer than a pair’s timeout',
    { subagents: { b: { lease_ms: 9_000 } }, pairs: { 'a->b': { timeout_ms: 9_000 } } },
    'error',
    '$.pairs["a->b"].timeout_ms',
    '$.subagents.b.lease_ms',
  ],
  [
    'a pair towards a subagent that may not receive',
    { pairs: { 'a->b': { enabled: true } }, subagents: { b: { can_receive_passes: false } } },
    'error',
    '$.pairs["a->b"].enabled',
    '$.subagents.b.can_receive_passes',
  ],
  [
    'the same, enabled by saying nothing',
    { pairs: { 'a->b': { auto_return: true } }, subagents: { b: { can_receive_passes: false } } },
    'error',
    '$.pairs["a->b"]',
    '$.subagents.b.can_receive_passes',
  ],
  [
    'nobody may approve what a pair holds',
    { pairs: { 'a->b': { approvers: [], hold_before_dispatch: true, require_user_approval: false } } },
    'error',
    '$.pairs["a->b"].approvers',
    '$.pairs["a->b"].hold_before_dispatch',
  ],
  [
    'nobody may approve what the subagent’s entry wants approved',
    { pairs: { 'a->b': { approvers: [] } }, subagents: { b: { require_user_approval: true } } },
    'error',
    '$.pairs["a->b"].approvers',
    '$.subagents.b.require_user_approval',
  ],
  [
    'nobody may approve what the defaults want approved',
    { defaults: { require_confirmation: true }, pairs: { 'a->b': { approvers: [] } } },
    'error',
    '$.pairs["a->b"].approvers',
    '$.defaults.require_confirmation',
  ],
  [
    'nobody may approve what the system wants approved',
    { defaults: { approvers: [] } },
    'error',
    '$.defaults.approvers',
    "the system's require_user_approval",
  ],
  [
    'only the parties may approve',
    { pairs: { 'a->b': { approvers: ['a', 'b'] } } },
    'error',
    '$.pairs["a->b"].approvers',
    '$.pairs["a->b"]',
  ],
  [
    'a bound of open passes that the pair’s own max_active replaces',
    { pairs: { 'a->b': { max_open: 5, max_active: 10 } } },
    'warning',
    '$.pairs["a->b"].max_open',
    '$.pairs["a->b"].max_active',
  ],
  [
    'no tool in common',
    { pairs: { 'a->b': { tools: ['read'] } }, subagents: { b: { tools: ['edit'] } } },
    'error',
    '$.pairs["a->b"].tools',
    '$.subagents.b.tools',
  ],
  [
    'tools that may not be run',
    { pairs: { 'a->b': { tools: ['read'], can_run_tools: false } } },
    'warning',
    '$.pairs["a->b"].tools',
    '$.pairs["a->b"].can_run_tools',
  ],
  [
    'applied by itself, and approved',
    { defaults: { auto_apply: true, require_confirmation: true } },
    'warning',
    '$.defaults.auto_apply',
    '$.defaults.require_confirmation',
  ],
  [
    'a schema that is never used',
    { subagents: { b: { output_schema: {}, validate_output: false } } },
    'warning',
    '$.subagents.b.output_schema',
    '$.subagents.b.validate_output',
  ],
]

describe('what cannot hold together is E031 with both places', () => {
  it.each(CONFLICTS)('%s', (_, document, severity, first, second) => {
    const told = check(document)
    expect(told).toHaveLength(1)
    expect(told[0]).toMatchObject({ code: 'E031', severity, path: first })
    expect(told[0]?.places.map(({ path }) => path)).toEqual([first, second])
    expect(told[0]?.message).toContain(second)
    expect(told[0]?.suggestion).not.toBe('')
  })

  it('a pair of one agent, which has only one place', () => {
    expect(check({ pairs: { 'a->a': {} } })).toMatchObject([{ severity: 'error', path: '$.pairs["a->a"]' }])
  })
})

describe('what holds together', () => {
  it.each<[string, PassOverPreferences]>([
    [
      'a disabled pair towards a subagent that may not receive',
      { pairs: { 'a->b': { enabled: false } }, subagents: { b: { can_receive_passes: false } } },
    ],
    ['a disabled pair of one agent', { pairs: { 'a->a': { enabled: false } } }],
    ['a timeout that is the maximum', { defaults: { max_timeout_ms: 1_000, timeout_ms: 1_000 } }],
    ['a long lease with a single attempt', { defaults: { lease_ms: 40_000, max_attempts: 1 } }],
    ['a short pass under the system’s lease', { pairs: { 'a->b': { timeout_ms: 100 } } }],
    ['no approvers where nothing is approved', { defaults: { approvers: [], require_confirmation: false, hold_before_dispatch: false } }],
    ['a party among others', { pairs: { 'a->b': { approvers: ['a', 'pat'] } } }],
    ['tools in common', { pairs: { 'a->b': { tools: ['read', 'x'] } }, subagents: { b: { tools: ['read'] } } }],
    ['no tools at all', { pairs: { 'a->b': { tools: [] } }, subagents: { b: { tools: ['read'] } } }],
  ])('%s', (_, document) => expect(check(document)).toEqual([]))
})

describe('with the registry', () => {
  const known = [agent('alice', { subagent: false, originates: 'always' }), agent('audit'), agent('scout', { originates: 'never' })]
  const places = (document: PassOverPreferences) =>
    check(document, known).map(({ severity, path, places: [, second] }) => [severity, path, second?.path])

  it('a name that nobody has is named, most of all where it forbids; a pair’s originator may be unregistered', () => {
    const told = check({ pairs: { 'alice->adit': { enabled: false }, 'bob->audit': {} }, subagents: { inspektor: {} } }, known)
    expect(told.map(({ severity, path }) => [severity, path])).toEqual([
      ['error', '$.subagents.inspektor'],
      ['error', '$.pairs["alice->adit"]'],
      ['warning', '$.pairs["bob->audit"]'],
    ])
    expect(told[1]?.suggestion).toBe('did you mean audit?')
    expect(told[0]?.suggestion).toContain('passover agents add inspektor')
    // Registered as a subagent alone, bob could begin nothing.
    expect(told[2]?.suggestion).toBe('passover agents add bob --originates always')
  })

  it('roles are held against enabled pairs', () => {
    expect(places({ pairs: { 'audit->alice': { enabled: true } } })).toEqual([
      ['error', '$.pairs["audit->alice"].enabled', 'agent alice, roles.subagent'],
    ])
    expect(places({ pairs: { 'scout->audit': {} } })).toEqual([['error', '$.pairs["scout->audit"]', 'agent scout, roles.originates']])
    expect(places({ pairs: { 'scout->audit': { enabled: false } } })).toEqual([])
    const mends = (document: PassOverPreferences) => check(document, known).map(({ suggestion }) => suggestion)
    expect(mends({ pairs: { 'audit->alice': {}, 'scout->audit': {} } })).toEqual([
      expect.stringContaining('passover agents set alice --subagent'),
      expect.stringContaining('passover agents set scout --originates within_a_pass'),
    ])
  })

  it('an agent among the approvers is none', () => {
    expect(places({ defaults: { approvers: ['pat', 'audit'] } })).toEqual([['warning', '$.defaults.approvers', 'agent audit']])
    expect(places({ pairs: { 'alice->audit': { approvers: ['scout'] } } })).toEqual([
      ['error', '$.pairs["alice->audit"].approvers', 'agent scout'],
    ])
  })

  it('nothing is said about who is missing where it is not known', () => {
    expect(check({ pairs: { 'x->y': {} }, subagents: { z: {} } })).toEqual([])
  })
})

it('a fault is the same one in two documents that both have it', () => {
  const [a] = check({ defaults: { max_timeout_ms: 1_000, timeout_ms: 2_000 } })
  const [b] = check({ defaults: { max_timeout_ms: 1_000, timeout_ms: 2_000, auto_return: true } })
  const [c] = check({ defaults: { max_timeout_ms: 1_000, timeout_ms: 3_000 } })
  expect(a && b && faultKey(a) === faultKey(b)).toBe(true)
  expect(a && c && faultKey(a) === faultKey(c)).toBe(false)
})
