import { createHash } from 'node:crypto'
import { canonicalJson } from '@passover/schemas'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { request } from '../../testing/samples.js'
import { requestDigest } from './request-digest.js'

const PARTS = [
  { name: 'context', hash: '1'.repeat(64) },
  { name: 'file:b', hash: '2'.repeat(64) },
  { name: 'file:a', hash: '3'.repeat(64) },
]
const FULL = request({
  priority: 'high',
  timeout_ms: 5,
  auto_apply_on_success: true,
  constraints: ['read_only', 'x'],
  expected_output_type: 'report',
  override: { timeout_ms: 7, auto_return: true },
})

describe('requestDigest', () => {
  it('is the SHA-256 of the canonical form', () => {
    const canonical =
      '{"auto_apply_on_success":true,"constraints":["read_only","x"],"expected_output_type":"report","originator":"alice",' +
      '"override":{"auto_return":true,"timeout_ms":7},"parts":[' +
      `{"hash":"${'1'.repeat(64)}","name":"context"},{"hash":"${'3'.repeat(64)}","name":"file:a"},{"hash":"${'2'.repeat(64)}","name":"file:b"}],` +
      '"priority":"high","reason":"review_changes","return_required":true,"subagent":"audit","timeout_ms":5}'
    expect(requestDigest(FULL, PARTS)).toBe(createHash('sha256').update(canonical).digest('hex'))
  })

  it('does not depend on the order of keys or parts', () => {
    fc.assert(
      fc.property(
        fc.shuffledSubarray(Object.keys(FULL), { minLength: Object.keys(FULL).length }),
        fc.shuffledSubarray(PARTS, { minLength: 3 }),
        (keys, parts) => {
          const shuffled = Object.fromEntries(keys.map((key) => [key, FULL[key]])) as typeof FULL
          expect(requestDigest(shuffled, parts)).toBe(requestDigest(FULL, PARTS))
        },
      ),
    )
  })

  it('does not depend on the order of parts of one name', () => {
    const twice = [
      { name: 'a', hash: '1' },
      { name: 'a', hash: '2' },
      { name: 'a', hash: '1' },
    ]
    expect(requestDigest(FULL, twice)).toBe(
      requestDigest(
        FULL,
        [...twice].sort((a, b) => b.hash.localeCompare(a.hash)),
      ),
    )
  })

  it('does not tell a default that is left out from one that is written out', () => {
    const bare = request()
    expect(requestDigest(request({ priority: 'medium', auto_apply_on_success: false, constraints: [] }), PARTS)).toBe(
      requestDigest(bare, PARTS),
    )
  })

  it.each<[string, Partial<typeof FULL>]>([
    ['originating_agent_id', { originating_agent_id: 'bob' }],
    ['subagent_id', { subagent_id: 'scout' }],
    ['reason', { reason: 'other' }],
    ['priority', { priority: 'low' }],
    ['timeout_ms', { timeout_ms: 6 }],
    ['return_required', { return_required: false }],
    ['auto_apply_on_success', { auto_apply_on_success: false }],
    ['constraints', { constraints: ['x', 'read_only'] }],
    ['expected_output_type', { expected_output_type: 'mixed' }],
    ['override', { override: { timeout_ms: 8, auto_return: true } }],
  ])('is sensitive to %s', (_, change) => {
    expect(requestDigest({ ...FULL, ...change }, PARTS)).not.toBe(requestDigest(FULL, PARTS))
  })

  it.each([
    ['a part less', PARTS.slice(1)],
    ['another hash', [{ name: 'context', hash: '4'.repeat(64) }, ...PARTS.slice(1)]],
    ['another name', [{ name: 'contexts', hash: '1'.repeat(64) }, ...PARTS.slice(1)]],
  ])('is sensitive to %s', (_, parts) => {
    expect(requestDigest(FULL, parts)).not.toBe(requestDigest(FULL, PARTS))
  })

  it('leaves out what is not the request itself', () => {
    const other = { ...FULL, id: 'another-id-1', retry_of: 'x', attempts_made: 2, user_id: 'u', trace_id: 't', budget: { passes: 1 } }
    expect(requestDigest(other, PARTS)).toBe(requestDigest(FULL, PARTS))
  })
})

describe('the form written out for the digest', () => {
  const text = fc.string({ unit: 'binary' })
  const asked = fc.record(
    {
      reason: text,
      priority: fc.constantFrom('high', 'medium', 'low'),
      timeout_ms: fc.nat(),
      auto_apply_on_success: fc.boolean(),
      constraints: fc.array(text),
      expected_output_type: fc.constantFrom('report', 'mixed'),
      override: fc.record({ timeout_ms: fc.nat(), auto_return: fc.boolean() }, { requiredKeys: [] }),
    },
    { requiredKeys: ['reason'] },
  )

  it('is the RFC 8785 form', () => {
    fc.assert(
      fc.property(asked, fc.array(fc.record({ name: text, hash: text }), { maxLength: 3 }), (change, parts) => {
        const given = request(change as Partial<Parameters<typeof requestDigest>[0]>)
        const sorted = [...parts].sort((a, b) => (a.name === b.name ? (a.hash < b.hash ? -1 : 1) : a.name < b.name ? -1 : 1))
        const { override, expected_output_type, timeout_ms } = given
        const whole = {
          originator: given.originating_agent_id,
          subagent: given.subagent_id,
          reason: given.reason,
          priority: given.priority ?? 'medium',
          return_required: given.return_required,
          auto_apply_on_success: given.auto_apply_on_success ?? false,
          constraints: given.constraints ?? [],
          parts: sorted.map(({ name, hash }) => ({ name, hash })),
          ...(timeout_ms !== undefined && { timeout_ms }),
          ...(expected_output_type !== undefined && { expected_output_type }),
          ...(override !== undefined && { override }),
        }
        expect(requestDigest(given, parts)).toBe(createHash('sha256').update(canonicalJson(whole)).digest('hex'))
      }),
    )
  })

  it('cannot be made of a lone surrogate', () => {
    expect(() => requestDigest(request({ reason: 'a\ud800' }), [])).toThrow()
  })
})
