import { describe, expect, it } from 'vitest'
import { configSample } from '../../../../test/support/builders/examples.js'
import { checkPolicy } from './lint/lint-policy.js'
import { type PolicyFault, readPolicy } from './parse-policy.js'

function faults(value: unknown): PolicyFault[] {
  const read = readPolicy(value)
  return read.ok ? [] : read.faults
}

it('accepts the sample configuration as it is', () => {
  const read = readPolicy(JSON.parse(configSample))
  expect(read.ok).toBe(true)
  expect(read.ok && checkPolicy(read.document, undefined)).toEqual([])
})

it('everything that is wrong is told at once, wherever it stands', () => {
  const told = faults({
    defalts: {},
    defaults: { timeout_ms: '30s', auto_return: 'true', lease_ms: 1 },
    pairs: {
      'alice -> audit': {},
      'alice->audit': { enabeld: false, notify_on_return: 'allways', budget: { pases: 1 }, approvers: 'pat' },
      'bob->audit': { from: 'carol' },
    },
    subagents: { 'a.b': {}, audit: { output_schema: 7, tools: ['read', 5] } },
    audit: { retention_days: -1 },
  })
  expect(told.map(({ path }) => path).sort()).toEqual(
    [
      '$.defalts',
      '$.defaults.auto_return',
      '$.defaults.lease_ms',
      '$.defaults.timeout_ms',
      '$.audit.retention_days',
      '$.pairs["alice -> audit"]',
      '$.pairs["alice->audit"].approvers',
      '$.pairs["alice->audit"].budget.pases',
      '$.pairs["alice->audit"].enabeld',
      '$.pairs["alice->audit"].notify_on_return',
      '$.pairs["bob->audit"].from',
      '$.subagents["a.b"]',
      '$.subagents.audit.output_schema',
      '$.subagents.audit.tools[1]',
    ].sort(),
  )
  expect(told.every(({ found, expected, message }) => found !== '' && expected !== '' && message !== '')).toBe(true)
})

describe('a fault says what stands there, what was expected, and what was probably meant', () => {
  it.each([
    [{ defaults: { auto_retrun: true } }, '"auto_retrun"', /auto_return/, 'did you mean auto_return?'],
    [{ pair: {} }, '"pair"', /pairs/, 'did you mean pairs?'],
    [{ pairs: { 'a->b': { budget: { token: 1 } } } }, '"token"', /tokens/, 'did you mean tokens?'],
    [{ pairs: { 'a->b': { zzzzzzzz: 1 } } }, '"zzzzzzzz"', /one of: from/, undefined],
    [{ defaults: { timeout_ms: '30s' } }, '"30s"', /a (whole )?number/, 'did you mean 30000 (milliseconds)?'],
    [{ defaults: { timeout_ms: '30' } }, '"30"', /a (whole )?number/, 'did you mean 30 without quotes?'],
    [{ defaults: { timeout_ms: 1.5 } }, '1.5', /whole number/, undefined],
    [{ defaults: { timeout_ms: 0 } }, '0', /^more than 0$/, undefined],
    [{ defaults: { lease_ms: 1 } }, '1', /^at least 100$/, undefined],
    [{ defaults: { auto_return: 'true' } }, '"true"', /true or false/, 'did you mean true without quotes?'],
    [{ defaults: { notify_on_return: 'allways' } }, '"allways"', /"always", "only_issues", "never"/, 'did you mean always?'],
    [{ pairs: { 'alice => audit': {} } }, '{}', /originator->subagent/, 'did you mean "alice->audit"?'],
    [{ subagents: { 'a.b': {} } }, '{}', /a name/, undefined],
    [{ pairs: [] }, '[]', /an object/, undefined],
    [[], '[]', /an object/, undefined],
    ['x', '"x"', /an object/, undefined],
  ])('%j', (value, found, expected, suggestion) => {
    const [fault, ...more] = faults(value)
    expect(more).toEqual([])
    expect(fault).toMatchObject({ code: 'E030', found, expected: expect.stringMatching(expected) })
    expect(fault?.suggestion).toBe(suggestion)
  })

  it('cut short where much stands there', () => {
    expect(faults({ pairs: { 'a->b': { enabled: 'x'.repeat(500) } } })[0]?.found).toHaveLength(80)
  })
})

describe('E031 by its form, with both places', () => {
  it.each([
    [
      'a pair’s setting of another level',
      { pairs: { 'a->b': { max_attempts: 3 } } },
      ['$.pairs["a->b"].max_attempts', '$.subagents[*].max_attempts', '$.defaults.max_attempts'],
    ],
    ['a default of another level', { defaults: { enabled: false } }, ['$.defaults.enabled', '$.pairs[*].enabled']],
    [
      'a subagent’s of another level',
      { subagents: { b: { approvers: [] } } },
      ['$.subagents.b.approvers', '$.pairs[*].approvers', '$.defaults.approvers'],
    ],
    [
      'what defaults call otherwise',
      { defaults: { require_user_approval: true } },
      ['$.defaults.require_user_approval', '$.pairs[*].require_user_approval', '$.subagents[*].require_user_approval'],
    ],
    [
      'and the other way round',
      { pairs: { 'a->b': { require_confirmation: true } } },
      ['$.pairs["a->b"].require_confirmation', '$.defaults.require_confirmation'],
    ],
    [
      'an approval above its bound',
      { pairs: { 'a->b': { approval_expires_ms: 604_800_001 } } },
      ['$.pairs["a->b"].approval_expires_ms', 'the system'],
    ],
    ['a timeout above the system’s', { defaults: { timeout_ms: 86_400_001 } }, ['$.defaults.timeout_ms', 'the system']],
  ])('%s', (_, value, places) => {
    const told = faults(value)
    expect(told).toHaveLength(1)
    expect(told[0]).toMatchObject({ code: 'E031', path: places[0] })
    expect(told[0]?.places.map(({ path }) => path)).toEqual(places)
    for (const { path } of told[0]?.places.slice(0, 1) ?? []) expect(told[0]?.message).toContain(path)
  })
})

describe('a value that no field can have', () => {
  it.each<[string, string, string, RegExp]>([
    ['1e300', '{"defaults":{"timeout_ms":1e300}}', '$.defaults.timeout_ms', /is 1e\+300, expected at most 86400000/],
    [
      '1e999',
      '{"defaults":{"max_passes_per_session":1e999}}',
      '$.defaults.max_passes_per_session',
      /is a number above 1e308, expected at most 1000000000/,
    ],
    ['-1e999', '{"defaults":{"lease_ms":-1e999}}', '$.defaults.lease_ms', /is a number below -1e308, expected at least 100/],
    [
      '1e300 without a bound of its own',
      '{"defaults":{"budget":{"tokens":1e300}}}',
      '$.defaults.budget.tokens',
      /expected at most 9007199254740991/,
    ],
    ['__proto__', '{"__proto__":{"defaults":{}}}', '$.__proto__', /^\$\.__proto__: this name is not allowed$/],
    ['__proto__ as a pair', '{"pairs":{"__proto__":{}}}', '$.pairs.__proto__', /this name is not allowed/],
    [
      '__proto__ in a schema',
      '{"subagents":{"a":{"output_schema":{"x":{"__proto__":1}}}}}',
      '$.subagents.a.output_schema.x.__proto__',
      /not allowed/,
    ],
    [
      'a name that no agent has, in an entry for another',
      '{"subagents":{"a":{"subagent_id":"c d"}}}',
      '$.subagents.a.subagent_id',
      /expected "a"/,
    ],
  ])('is named once: %s', (_, text, path, message) => {
    expect(faults(JSON.parse(text))).toEqual([expect.objectContaining({ path, message: expect.stringMatching(message) })])
  })

  it('is counted where there are too many', () => {
    const pairs = Object.fromEntries(Array.from({ length: 10_001 }, (_, at) => [`a${at}->b`, {}]))
    expect(faults({ pairs })).toEqual([
      expect.objectContaining({ path: '$.pairs', message: '$.pairs is an object with 10001 entries, expected at most 10000 entries' }),
    ])
  })
})
