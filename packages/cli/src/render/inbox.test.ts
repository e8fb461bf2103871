import type { InboxItem } from '@passover/schemas'
import picocolors from 'picocolors'
import { describe, expect, it } from 'vitest'
import { decisionCommands, itemDocument, renderInbox, renderItem } from './inbox.js'

const colors = picocolors.createColors(false)
const view = { colors, now: 60_000, person: 'ann' }
const root = { originator: 'alice', subagent: 'scout', id: 'root-pass-1' }
const modification = { operation: 'modify', added: 2, removed: 1, reason: 'better', confidence: 'high', digest: 'd' } as const
const base = {
  originator: 'scout',
  subagent: 'audit',
  id: 'held-pass-1',
  root,
  chain: ['alice', 'scout', 'audit'],
  reason: 'review',
  requested_at: 0,
  since: 0,
  expires_at: 120_000,
  digest: 'abc',
  policy: { name: 'pair scout->audit', version: 7 },
}
const held: InboxItem = {
  ...base,
  item: 'dispatch',
  asked: {
    objective: 'look\nat it',
    files: ['a', 'b', 'c', 'd', 'e', 'f'].map((path) => ({ path, size: 2_048 })),
    files_left_out: 3,
    context_bytes: 3 * 1024 * 1024,
    timeout_ms: 30_000,
    constraints: ['read_only'],
  },
}
const proposed: InboxItem = {
  ...base,
  item: 'apply',
  approvers: ['ann', 'bob'],
  returned: {
    status: 'completed',
    decision: 'needs_modification',
    summary: 'three things',
    findings: { error: 1, warning: 2, info: 1, shown: [{ severity: 'error', message: 'broken' }] },
    modifications: [
      { ...modification, number: 1, path: 'a.ts' },
      { ...modification, number: 2, path: 'b.ts', operation: 'create' },
    ],
    modifications_left_out: 4,
  },
}

describe('an item of the inbox', () => {
  it('shows what a start asks for, where it stands in its chain, and when it expires', () => {
    const text = renderItem(held, view)
    expect(text).toContain('start of the work  held-pass-1  alice → scout → audit')
    expect(text).toMatch(/waiting for \d+(\.\d)? \w+, expires in 1 ?m/)
    expect(text).toContain('objective look at it')
    expect(text).toContain('e (2 KiB) and 4 more')
    expect(text).toContain('3 MiB in total')
    expect(text).toContain('not shown background, messages, tool results')
    expect(renderItem(held, { ...view, whole: true })).not.toContain('not shown')
    expect(text).toContain('rules     read_only')
    expect(text).toContain('pair scout->audit v7')
    expect(text).toContain(
      '  passover approve held-pass-1 --item dispatch --from scout --to audit\n  passover deny held-pass-1 --item dispatch --from scout --to audit',
    )
  })

  it('says where the objective of a start is not shown', () => {
    const asked = (more: object) => ({ ...held, asked: { ...held.asked, ...more } }) as InboxItem
    const left_out = { objective_left_out: 'it is no text' }
    expect(renderItem(asked({ objective: undefined, ...left_out }), view)).toContain('objective ⚠ not shown: it is no text')
    expect(renderItem(asked(left_out), { ...view, whole: true })).toContain('objective look at it ⚠ not shown: it is no text')
  })

  it('shows what a start without files asks for', () => {
    const bare = { files: [], context_bytes: 10, timeout_ms: 1_000, constraints: [] }
    const text = renderItem({ ...held, asked: bare }, view)
    expect(text).toContain('files     none')
    expect(text).toContain('10 bytes in total')
    expect(text).not.toMatch(/objective|rules/)
  })

  it('shows what came back: findings by severity, changes by number', () => {
    const text = renderItem(proposed, view)
    expect(text).toContain('completed, decision: needs_modification: three things')
    expect(text).toContain('1 error, 2 warnings, 1 remark: broken')
    expect(text).toContain('1. a.ts  +2 -1  better (confidence high)')
    expect(text).toContain('2. b.ts  create  +2 -1')
    expect(text).toContain('… and 4 more')
    expect(text).toContain('approvers: ann, bob')
  })

  it('has as digest what --digest takes, and of changes none: what shows their diffs tells it', () => {
    expect(renderItem(held, view)).toMatch(/digest {4}abc/)
    expect(renderItem(proposed, view)).not.toContain('digest')
    expect(itemDocument(held)).toEqual(held)
    expect(itemDocument(proposed)).toMatchObject({ item: 'apply', return_digest: proposed.digest })
    expect(itemDocument(proposed)).not.toHaveProperty('digest')
  })

  it('says where a result is told that is too large, and why one is held', () => {
    expect(renderItem({ ...base, item: 'return' }, view)).toContain('too large for this list')
    const quiet = { status: 'partial', findings: { error: 0, warning: 0, info: 0, shown: [] }, modifications: [] }
    const text = renderItem({ ...base, item: 'return', why: 'the work is only partly done', approvers: [], returned: quiet }, view)
    expect(text).toContain('held      the work is only partly done')
    expect(text).toContain('approvers: none')
    expect(text).not.toContain('findings')
  })

  it('names the command that this person can type', () => {
    expect(decisionCommands(proposed, { person: 'ann' })).toBe(
      [
        'passover approve held-pass-1 --item apply --from scout --to audit',
        'to approve only some changes, add their numbers: --only 1,2',
        'passover deny held-pass-1 --item apply --from scout --to audit',
      ].join('\n'),
    )
    expect(decisionCommands(proposed, { person: 'carol' })).toBe(
      'to be decided by ann or bob:\npassover approve held-pass-1 --item apply --from scout --to audit',
    )
    expect(decisionCommands(held, { person: 'scout' })).toMatch(/^to be decided by another person, because scout takes part in it:\n/)
    expect(decisionCommands({ ...proposed, approvers: [] }, { person: 'ann' })).toContain('but the policy names none')
  })
})

describe('the inbox', () => {
  it('puts the passes of one chain together under the one at its top', () => {
    const other = { ...held, id: 'other', root: { originator: 'bob', subagent: 'audit', id: 'other' } }
    const text = renderInbox([held, other, proposed], view)
    expect(text.match(/root-pass-1/g)).toHaveLength(1)
    expect(text.indexOf('bob → audit')).toBeGreaterThan(text.indexOf('application of the changes'))
  })
})
