import { type PassOverPreferences, passOverPreferences } from '@passover/schemas'
import { expect, it } from 'vitest'
import { agent } from '../../testing/samples.js'
import { valueAt } from './document-path.js'
import { explainPolicy } from './explain-policy.js'
import { POLICY_FIELDS } from './fields.js'

const document: PassOverPreferences = passOverPreferences.parse({
  defaults: { require_confirmation: false, timeout_ms: 10_000, max_attempts: 2, approvers: ['pat'] },
  pairs: { 'alice->audit': { timeout_ms: 20_000, can_run_tools: true, reason: 'because' } },
  subagents: { audit: { timeout_ms: 15_000, can_run_tools: false } },
})
const record = agent('audit', {}, { defaults: { lease_ms: 1_000, max_active: 4 } })

function explain(more: Partial<Parameters<typeof explainPolicy>[1]> = {}) {
  const explained = explainPolicy(document, { from: 'alice', to: 'audit', agent: record, ...more })
  if (!explained.ok) throw new Error(explained.error.message)
  return new Map(explained.value.fields.map((row) => [row.field as string, row]))
}

it('names for every field its value, its level and where it stands', () => {
  const rows = explain()
  expect([...rows.keys()]).toEqual(Object.keys(POLICY_FIELDS))
  expect(rows.get('timeout_ms')).toMatchObject({ value: 20_000, level: 'pair', place: { path: '$.pairs["alice->audit"].timeout_ms' } })
  expect(rows.get('timeout_ms')?.said.map(({ level, value }) => [level, value])).toEqual([
    ['pair', 20_000],
    ['subagent', 15_000],
    ['global', 10_000],
    ['system', 30_000],
  ])
  expect(rows.get('require_user_approval')).toMatchObject({ value: false, place: { path: '$.defaults.require_confirmation' } })
  expect(rows.get('can_run_tools')).toMatchObject({ value: false, level: 'subagent', place: { path: '$.subagents.audit.can_run_tools' } })
  expect(rows.get('lease_ms')).toMatchObject({ value: 1_000, level: 'registry', place: { path: 'agent audit, defaults.lease_ms' } })
  expect(rows.get('enabled')).toMatchObject({ value: true, level: 'system', place: { path: 'the system' } })
  expect(rows.get('tools')).toMatchObject({ value: undefined, level: 'system', said: [] })
})

it('every place in the document holds the value that is told', () => {
  for (const { said } of explain().values()) {
    for (const { at, value } of said) if (at) expect(valueAt(document, at)).toEqual(value)
  }
})

it('shows what an override would give, or why it is refused', () => {
  const rows = explain({ override: { auto_return: true }, request: { timeout_ms: 5_000 } })
  expect(rows.get('auto_return')).toMatchObject({ value: true, level: 'override', place: { path: "the request's override.auto_return" } })
  expect(rows.get('timeout_ms')).toMatchObject({ value: 5_000, level: 'request', place: { path: "the request's timeout_ms" } })
  const refused = explainPolicy(document, { from: 'alice', to: 'audit', override: { pass_files: true, auto_apply: true } })
  expect(refused).toMatchObject({ ok: false, error: { code: 'E013', details: { field: 'auto_apply' } } })
})

it('limits of pair and subagent count different passes: both are named where both bind', () => {
  const limits = (pair: object, subagent: object) => {
    const policy = passOverPreferences.parse({ pairs: { 'alice->audit': pair }, subagents: { audit: subagent } })
    const explained = explainPolicy(policy, { from: 'alice', to: 'audit', agent: record })
    if (!explained.ok) throw new Error(explained.error.message)
    const row = explained.value.fields.find(({ field }) => field === 'max_active')
    return [row, ...(row?.also ?? [])].map((one) => [one?.level, one?.value, ...(one && 'share' in one ? [one.share] : [])])
  }
  expect(limits({ max_active: 9 }, { max_active: 3 })).toEqual([
    ['pair', 9],
    ['subagent', 3],
  ])
  expect(limits({ max_active: 9 }, {})).toEqual([
    ['pair', 9],
    ['registry', 4],
  ])
  // An originator without a limit of its own has half of the subagent's, rounded up.
  expect(limits({}, { max_active: 3 })).toEqual([['subagent', 3, 2]])
  expect(limits({}, {})).toEqual([['registry', 4, 2]])
  expect(explain().get('timeout_ms')?.also).toEqual([])
})
