import { describe, expect, it } from 'vitest'
import { decision, history, RETURN, record, refused, system, WORK } from '../../testing/histories.js'
import { control, KEY, output, RULES, step, T0 } from '../../testing/samples.js'
import type { PassHistory } from '../journal/pass-history.js'
import { foldJournal } from '../journal/state-machine.js'
import { countedDecisions, judgeDecision, REVOKED } from './decisions.js'

describe('judgeDecision', () => {
  const body = { v: 1, verdict: 'approve', digest: 'h' }
  const fact = { person: 'bob', verdict: 'approve', digest: 'h', time: T0, sequence: 5 } as const
  const rules = { key: KEY, digest: 'h' }

  it('goes by the body, with or without headers', () => {
    expect(judgeDecision(fact, body, rules)).toEqual({ counts: true, person: 'bob', body })
    expect(judgeDecision({ person: 'bob', time: T0, sequence: 5 }, { ...body, reason: 'r' }, rules)).toMatchObject({
      counts: true,
      body: { reason: 'r' },
    })
  })

  it.each([
    ['no decision', fact, undefined, rules],
    ['no decision', fact, { ...body, verdict: 'maybe' }, rules],
    ['headers and body differ', { ...fact, verdict: 'deny' as const }, body, rules],
    ['headers and body differ', { ...fact, digest: 'x' }, body, rules],
    ['headers and body differ', fact, { ...body, digest: 'x' }, rules],
    ['takes part in the pass', { ...fact, person: KEY.originator }, body, rules],
    ['takes part in the pass', { ...fact, person: KEY.originator }, body, { ...rules, approvers: [KEY.originator] }],
    ['takes part in the pass', { ...fact, person: KEY.subagent }, body, rules],
    ['takes part in the pass', { ...fact, person: 'root' }, body, { ...rules, ancestors: ['root', 'alice'] }],
    ['not a person', fact, body, { ...rules, isPerson: () => false }],
    ['not an approver', fact, body, { ...rules, approvers: ['carol'] }],
    ['about something else', { person: 'bob', time: T0, sequence: 5 }, { ...body, digest: 'x' }, rules],
    ['too late', fact, body, { ...rules, expires_at: T0 }],
  ])('says why one counts for nothing: %s', (why, stored, given, by) => {
    expect(judgeDecision(stored, given, by)).toEqual({ counts: false, why })
  })

  it('takes an approval stored after the revocation of any agent in the chain only with despite_revocation', () => {
    const chain = { ...rules, ancestors: ['root', KEY.originator] }
    for (const agent of ['root', KEY.originator, KEY.subagent]) {
      const revokedAt = (sequence: number) => ({ ...chain, revoked: new Map([[agent, sequence]]) })
      expect(judgeDecision(fact, body, revokedAt(fact.sequence - 1)), agent).toEqual({ counts: false, why: REVOKED })
      expect(judgeDecision(fact, body, revokedAt(fact.sequence + 1)), agent).toMatchObject({ counts: true })
      const knowing = { ...body, despite_revocation: true }
      expect(judgeDecision(fact, knowing, revokedAt(fact.sequence - 1)), agent).toMatchObject({ counts: true })
      const denial = { ...fact, verdict: 'deny' as const }
      expect(judgeDecision(denial, { ...body, verdict: 'deny' }, revokedAt(fact.sequence - 1)), agent).toMatchObject({ counts: true })
    }
    expect(judgeDecision(fact, body, { ...chain, revoked: new Map([['other', 1]]) })).toMatchObject({ counts: true })
  })

  it('lets the only person of a local server decide about what they began, and no agent in it', () => {
    const own = { ...fact, person: KEY.originator }
    const local = { ...rules, local_person: KEY.originator }
    expect(judgeDecision(own, body, local)).toMatchObject({ counts: true })
    expect(judgeDecision(own, body, { ...local, approvers: [KEY.originator] })).toMatchObject({ counts: true })
    expect(judgeDecision(own, body, { ...local, approvers: [KEY.originator, 'bob'] }).counts).toBe(false)
    // A registered agent, a subagent of the chain or of the pass itself.
    expect(judgeDecision(own, body, { ...local, isPerson: () => false }).counts).toBe(false)
    expect(judgeDecision(own, body, { ...local, ancestors: ['root', KEY.originator] }).counts).toBe(false)
    expect(judgeDecision(own, body, { ...local, ancestors: [KEY.originator, 'scout', KEY.originator] }).counts).toBe(false)
    const worker = { ...fact, person: KEY.subagent }
    expect(judgeDecision(worker, body, { ...local, local_person: KEY.subagent }).counts).toBe(false)
    expect(
      judgeDecision({ ...fact, person: 'root' }, body, { ...local, local_person: 'root', ancestors: ['root', KEY.originator] }).counts,
    ).toBe(true)
  })

  it('lets approvers decide, and about what has no digest everybody', () => {
    expect(judgeDecision(fact, body, { ...rules, approvers: ['bob'], isPerson: (name) => name === 'bob' }).counts).toBe(true)
    expect(judgeDecision(fact, body, { key: KEY }).counts).toBe(true)
    expect(judgeDecision(fact, body, { ...rules, expires_at: T0 + 1 }).counts).toBe(true)
  })
})

describe('countedDecisions', () => {
  const held = step('held', 11, { digest: 'h' })
  const counts = (pass: Partial<PassHistory>) => {
    const whole = history({ steps: [held], returned: undefined, ...pass })
    return countedDecisions(whole, foldJournal(whole.steps, RULES).journal).map((one) => one.counts)
  }
  it('marks a decision about one`s own pass, and what no server verified, whatever the message says', () => {
    const local = { ...control(), local_person: KEY.originator }
    const whole = history({
      steps: [held],
      returned: undefined,
      control: local,
      decisions: [decision(12, { digest: 'h', person: KEY.originator })],
    })
    const { journal } = foldJournal(whole.steps, RULES)
    expect(countedDecisions(whole, journal)).toMatchObject([{ counts: true, self: 'local' }])
    expect(countedDecisions(whole, journal)[0]).not.toHaveProperty('unverified')
    expect(countedDecisions(whole, journal, 'unverified')).toMatchObject([{ counts: true, self: 'local', unverified: true }])
    const other = history({ ...whole, control: control() })
    expect(countedDecisions(other, journal)).toMatchObject([{ counts: false, why: 'takes part in the pass' }])
  })

  const approvers = { ...control(), policy: { ...control().policy, approvers: ['bob'] } }

  it('counts the first of an item by an approver about what was shown', () => {
    expect(counts({ decisions: [decision(12, { digest: 'h' })] })).toEqual([true])
    expect(counts({ decisions: [decision(12, { digest: 'h', verdict: 'deny' }), decision(13, { digest: 'h' })] })).toEqual([true, false])
    expect(counts({ decisions: [decision(12, { digest: 'x' }), decision(13, { digest: 'h' })] })).toEqual([false, true])
    expect(
      counts({ decisions: [decision(12, { digest: 'h', person: 'eve' }), decision(13, { digest: 'h' })], control: approvers }),
    ).toEqual([false, true])
    expect(counts({ decisions: [decision(12, { item: 'gate', digest: 'whatever' })] })).toEqual([true])
  })

  it('counts one decision per item, and says why another does not count', () => {
    const whole = history({
      steps: [held, WORK, RETURN],
      returned: { v: 1 as const, output: output() },
      return_digest: 'r',
      decisions: [
        decision(12, { digest: 'h', reason: 'looks good' }),
        decision(13, { digest: 'h' }),
        decision(17, { item: 'return', digest: 'r' }),
        decision(18, { item: 'apply', digest: 'x' }),
      ],
    })
    const { journal } = foldJournal(whole.steps, RULES)
    const counted = countedDecisions(whole, journal)
    expect(counted.map((one) => [one.item, one.counts || one.why])).toEqual([
      ['dispatch', true],
      ['dispatch', 'decided before'],
      ['return', true],
      ['apply', 'about something else'],
    ])
    expect(counted[0]?.reason).toBe('looks good')
    const never = history({ steps: [WORK], returned: undefined, decisions: [decision(12, { digest: undefined })] })
    expect(countedDecisions(never, foldJournal(never.steps, RULES).journal)).toMatchObject([{ digest: '', why: 'nothing to decide' }])
  })

  it('counts no decision by an agent of the pass, and none about dispatch of what was never held', () => {
    expect(counts({ decisions: [decision(12, { digest: 'h', person: 'alice' }), decision(13, { digest: 'h', person: 'audit' })] })).toEqual(
      [false, false],
    )
    expect(counts({ steps: [WORK], decisions: [decision(12)] })).toEqual([false])
  })

  it('takes the digest of the control frame where the step has none', () => {
    expect(counts({ steps: [step('held', 11)], decisions: [decision(12)] })).toEqual([true])
    expect(counts({ steps: [step('held', 11)], control: undefined, decisions: [decision(12, { digest: undefined })] })).toEqual([false])
  })

  it('takes verdict, digest and reason from the body, and counts none whose headers say otherwise', () => {
    const body = { v: 1, verdict: 'deny', digest: 'h', reason: 'no' }
    const of = (one: object) => {
      const whole = history({ steps: [held], returned: undefined, decisions: [{ ...decision(12), ...one }] })
      return countedDecisions(whole, foldJournal(whole.steps, RULES).journal)
    }
    expect(of({ verdict: undefined, digest: undefined, body })).toMatchObject([
      { verdict: 'deny', digest: 'h', reason: 'no', counts: true },
    ])
    expect(of({ verdict: 'deny', digest: 'h', body })).toMatchObject([{ verdict: 'deny', counts: true }])
    expect(of({ verdict: 'approve', digest: 'h', body })).toMatchObject([{ verdict: 'deny', counts: false }])
    expect(of({ verdict: 'deny', digest: 'x', body })).toMatchObject([{ digest: 'h', counts: false }])
    expect(of({ verdict: 'approve', digest: 'h', body: undefined })).toMatchObject([{ verdict: 'approve', counts: false }])
  })

  it.each(['return', 'apply'])("binds a decision about item %s to the stored return's digest", (item) => {
    const returned = { steps: [WORK, RETURN], returned: { v: 1 as const, output: output() }, return_digest: 'r' }
    const right = decision(17, { item, digest: 'r' })
    expect(counts({ ...returned, decisions: [decision(16, { item, digest: 'x' }), right] })).toEqual([false, true])
    expect(counts({ ...returned, returned: undefined, return_digest: undefined, decisions: [right] })).toEqual([false])
    expect(counts({ ...returned, returned: refused('E010'), steps: [WORK, system('E010')], decisions: [right] })).toEqual([false])
  })

  it.each([
    ['dispatch', 'h', { steps: [step('held', 11, { digest: 'h', time: T0, expires_ms: 100 })] }, T0 + 100],
    ['return', 'r', { steps: [WORK, RETURN] }, T0 + 700 + 86_400_000],
    ['apply', 'r', { steps: [WORK, RETURN] }, T0 + 700 + 86_400_000],
  ])('counts no decision about item %s that was stored at its expiry or later', (item, digest, of, expiry) => {
    const returned = item === 'dispatch' ? {} : { returned: { v: 1 as const, output: output() }, return_digest: 'r' }
    const at = (time: number) => counts({ ...of, ...returned, decisions: [decision(17, { item, digest, time })] })
    expect([at(expiry - 1), at(expiry)]).toEqual([[true], [false]])
  })

  it('keeps what an application takes, of the decision that counts alone', () => {
    const body = { v: 1, verdict: 'approve', digest: 'r', modifications: { m1: 'taken', m2: 'rejected' } }
    const apply = (sequence: number, more = {}) => ({ ...decision(sequence, { item: 'apply', digest: 'r' }), body: { ...body, ...more } })
    const whole = history({ decisions: [apply(16, { digest: 'x' }), apply(17), apply(18)], return_digest: 'r' })
    const told = countedDecisions(whole, foldJournal(whole.steps, RULES).journal)
    expect(told.map(({ modifications }) => modifications)).toEqual([undefined, body.modifications, undefined])
    expect(record({ ...whole }).decisions).toEqual(told)
    const other = history({ decisions: [{ ...apply(17), item: 'return' }], return_digest: 'r' })
    expect(countedDecisions(other, foldJournal(other.steps, RULES).journal)[0]).not.toHaveProperty('modifications')
  })

  it('leaves out what says neither yes nor no', () => {
    expect(counts({ decisions: [decision(12, { verdict: undefined })] })).toEqual([])
  })
})
