import type { PassOverPreferences } from '@passover/schemas'
import { describe, expect, it } from 'vitest'
import { describeDifference, diffPolicies, summarizeDifferences, withoutImplied } from './diff.js'

const before: PassOverPreferences = {
  defaults: { timeout_ms: 30_000 },
  pairs: { 'alice->audit': { from: 'alice', to: 'audit', enabled: true, approvers: ['ann'] } },
}

describe('differences', () => {
  it('name each setting that is said otherwise, newly or no more', () => {
    const after: PassOverPreferences = {
      defaults: { timeout_ms: 60_000, auto_return: true },
      pairs: { 'alice->audit': { from: 'alice', to: 'audit', approvers: ['ann'] } },
    }
    expect(diffPolicies(before, after).map(describeDifference)).toEqual([
      '~ $.defaults.timeout_ms 30000 → 60000',
      '+ $.defaults.auto_return true',
      '- $.pairs["alice->audit"].enabled true',
    ])
  })

  it('are none where only what is implied, or an empty section, differs', () => {
    const same: PassOverPreferences = {
      $schema: 'x',
      defaults: { timeout_ms: 30_000 },
      pairs: { 'alice->audit': { enabled: true, approvers: ['ann'] } },
      subagents: {},
    }
    expect(diffPolicies(before, same)).toEqual([])
    expect(diffPolicies({ subagents: {} }, {})).toEqual([])
    expect(summarizeDifferences([])).toBe('nothing')
  })

  it('keep a new entry whole, without what its key says', () => {
    const [one] = diffPolicies({}, { pairs: { 'a->b': { from: 'a', to: 'b', enabled: false } } })
    expect(one).toMatchObject({ path: '$.pairs', before: undefined, after: { 'a->b': { enabled: false } } })
    expect(withoutImplied(before.pairs)).toEqual({ 'alice->audit': { enabled: true, approvers: ['ann'] } })
  })

  it('tell the first ones in a line, and how many more', () => {
    const after: PassOverPreferences = { defaults: { timeout_ms: 1, auto_return: true, auto_review: true, auto_apply: false } }
    expect(summarizeDifferences(diffPolicies({ defaults: {} }, after))).toBe(
      '+ defaults.timeout_ms 1; + defaults.auto_return true; and 2 more',
    )
  })
})
