import { encode } from '@msgpack/msgpack'
import { describe, expect, it } from 'vitest'
import { ID, type Line, NOW, OTHER_ID, streamOf } from '../../testing/stored-messages.js'
import { checkAuthority } from './authority.js'
import { judge } from './judge.js'

const ROOT = `alice/audit/${ID}`
const work = (pair: string, id: string, more: { guard?: number; timeout?: number; parent?: string; ancestors?: string[] } = {}): Line => {
  const { timeout = 5_000, parent, ancestors, guard = 0 } = more
  return {
    subject: `work.${pair}.${id}.high`,
    headers: { guard, 'Passover-Timeout': timeout, ...(parent && { 'Passover-Parent': parent, 'Passover-Proof': 2 }) },
    data: encode({ v: 1, control: { ...(ancestors && { ancestors }) } }),
  }
}
const asked = (to: string, by: string, id: string): Line => ({ subject: `request.${to}.${by}`, headers: { 'Passover-Id': id } })
const root = [asked('audit', 'alice', ID), work('alice.audit', ID)]
const child = (more: Parameters<typeof work>[2]) => [
  ...root,
  asked('lint', 'audit', OTHER_ID),
  work('audit.lint', OTHER_ID, { parent: ROOT, ...more }),
]
const held: Line = { subject: `held.alice.audit.${ID}.passover`, headers: { guard: 0, 'Passover-Expires': 9_000, 'Passover-Digest': 'd' } }
const decided = (verdict: string, digest = 'd'): Line => ({
  subject: `decision.alice.audit.${ID}.dispatch.pat`,
  headers: { 'Passover-Verdict': verdict, 'Passover-Digest': digest },
})
const cancel: Line = { subject: `event.alice.audit.${ID}.cancel.alice`, after: 100 }
const ended = (after: number): Line => ({
  subject: `return.alice.audit.${ID}.passover`,
  headers: { guard: 2, 'Passover-Code': 'E043' },
  after,
})

function found(lines: readonly Line[], after = 0) {
  const records = streamOf(lines)
  return checkAuthority(records, judge(records, NOW + after), { bound_ms: 1_000, cascade_ms: 2_000 })
}

describe('ancestry and authority', () => {
  it.each<[string, Line[]]>([
    ['a child whose chain is the stream’s', child({ ancestors: ['alice', 'audit'] })],
    ['a held pass that was approved', [root[0] as Line, held, decided('approve'), work('alice.audit', ID, { guard: 2 })]],
    ['a held pass that was denied', [root[0] as Line, held, decided('deny')]],
    ['a cancelled pass that ended', [...root, cancel, ended(300)]],
  ])('finds nothing wrong with %s', (_, lines) => {
    expect(found(lines).violations).toEqual([])
  })

  it.each<[string, 'P3' | 'P5', Line[], RegExp]>([
    ['a chain that is too short', 'P3', child({ ancestors: ['audit'] }), /names audit as its ancestors, the stream alice → audit/],
    ['a chain that is left out', 'P3', child({}), /names audit as its ancestors/],
    ['a chain that is invented', 'P3', [root[0] as Line, work('alice.audit', ID, { ancestors: ['scout', 'alice'] })], /the stream alice$/],
    [
      'a loop',
      'P3',
      [...root, asked('alice', 'audit', OTHER_ID), work('audit.alice', OTHER_ID, { parent: ROOT, ancestors: ['alice', 'audit'] })],
      /a loop was dispatched: alice → audit → alice/,
    ],
    ['work that cannot be read', 'P3', [root[0] as Line, { ...(root[1] as Line), data: new Uint8Array([0xc1]) }], /cannot be read/],
    ['a child with more time than its parent', 'P5', child({ ancestors: ['alice', 'audit'], timeout: 60_000 }), /after its parent's/],
    ['held work without a decision', 'P5', [root[0] as Line, held, work('alice.audit', ID, { guard: 2 })], /without an approval/],
    [
      'held work that was denied',
      'P5',
      [root[0] as Line, held, decided('deny'), work('alice.audit', ID, { guard: 2 })],
      /without an approval/,
    ],
    [
      'held work approved by the digest of something else',
      'P5',
      [root[0] as Line, held, decided('approve', 'x'), work('alice.audit', ID, { guard: 2 })],
      /without an approval/,
    ],
    ['a cancel that nobody heeds', 'P5', [...root, cancel], /cancelled and went on for good/],
    ['a cancel that is heeded late', 'P5', [...root, cancel, ended(2_200)], /cancelled and went on for 2100 ms/],
  ])('names %s', (_, promise, lines, what) => {
    const { violations } = found(lines, 4_000)
    expect(violations).toHaveLength(1)
    expect(violations[0]).toMatchObject({ promise })
    expect(violations[0]?.what).toMatch(what)
  })
})
