import type { AppliedBody, RecordedDecision } from '@passover/schemas'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { appliedChanges } from './applied-changes.js'

const key = { originator: 'alice', subagent: 'audit', id: 'x'.repeat(32) }

function events(...bodies: (Partial<AppliedBody> & { sender?: string })[]) {
  return bodies.map(({ sender = 'alice', ...body }, index) => ({
    type: 'event' as const,
    kind: 'applied' as const,
    key,
    sender,
    sequence: index + 1,
    time: index,
    body: { v: 1, applied_by: 'maria', applied_at: index, applied: ['f'], rejected: [], ...body },
  }))
}
const approvals = ['maria', 'pat'].map((person) => ({
  item: 'apply' as const,
  person,
  verdict: 'approve' as const,
  digest: 'd',
  sequence: 1,
  time: 1,
  counts: true,
}))
const told = (...bodies: Parameters<typeof events>) => appliedChanges({ key, events: events(...bodies) }, approvals)

describe('applicationOf', () => {
  it('tells what stands, and since when', () => {
    expect(told()).toEqual({ applied: false })
    expect(told({ applied: [] })).toEqual({ applied: false })
    expect(told({ digests: ['a', 'b'], nonce: '1' })).toEqual({
      applied: true,
      applied_at: 0,
      applied_by: 'maria',
      record: { at: 0, by: 'maria', modifications: { a: 'applied', b: 'applied' } },
    })
  })

  it('names nobody but the sender and persons whose approval counts', () => {
    const [maria] = approvals
    const by = (decisions: RecordedDecision[], sender?: string) =>
      appliedChanges({ key, events: events({ digests: ['a'], ...(sender && { sender }) }) }, decisions).applied_by
    expect(by(approvals)).toBe('maria')
    expect(by([], 'maria')).toBe('maria')
    for (const other of [{ counts: false }, { item: 'dispatch' as const }, { verdict: 'deny' as const }, { person: 'pat' }])
      expect(by([{ ...(maria as RecordedDecision), ...other }])).toBe('alice')
  })

  it('takes back what an undo names, and goes by what still stands', () => {
    const two = [
      { digests: ['a'], nonce: '1', applied_by: 'maria' },
      { digests: ['b'], nonce: '2', applied_by: 'pat' },
    ]
    expect(told(...two)).toMatchObject({ applied: true, applied_at: 1, applied_by: 'pat' })
    const undone = told(...two, { digests: ['b'], nonce: '3', undone: true })
    expect(undone).toMatchObject({
      applied: true,
      applied_at: 0,
      applied_by: 'maria',
      record: { at: 2, modifications: { a: 'applied', b: 'undone' } },
    })
    const gone = told(...two, { digests: ['b'], nonce: '3', undone: true }, { digests: ['a'], nonce: '4', undone: true })
    expect(gone).toMatchObject({ applied: false, record: { modifications: { a: 'undone', b: 'undone' } } })
    expect(gone).not.toHaveProperty('applied_by')
  })

  it('does not let the originator take back, or take over, what a person applied', () => {
    const person = { digests: ['a'], sender: 'pat', applied_by: 'pat' }
    const stands = { applied: true, applied_at: 0, applied_by: 'pat', record: { at: 0, by: 'pat', modifications: { a: 'applied' } } }
    const again = { digests: ['a'], applied_by: 'alice' }
    for (const hidden of [
      [{ digests: ['a'], undone: true }],
      [{ undone: true }],
      [again, { digests: ['a'], undone: true }],
      [again, { undone: true }],
    ])
      expect(told(person, ...hidden)).toEqual(stands)
    expect(told(person, { digests: ['b'], applied_by: 'alice' })).toMatchObject({ applied_by: 'pat', record: { by: 'alice' } })
    expect(told(person, { digests: ['a'], undone: true, sender: 'maria' }).applied).toBe(false)
    expect(told({ digests: ['a'], applied_by: 'alice' }, { digests: ['a'], undone: true, sender: 'maria' }).applied).toBe(false)
  })

  it('counts an event once, however often and however late it is stored again', () => {
    const apply = { digests: ['a'], nonce: '1' }
    const undo = { digests: ['a'], nonce: '2', undone: true }
    expect(told(apply, apply, undo, apply, undo).applied).toBe(false)
  })

  it('does not listen to the subagent or the system', () => {
    expect(told({ digests: ['a'], sender: 'audit' }, { digests: ['a'], sender: 'passover' }).applied).toBe(false)
    expect(told({ digests: ['a'], sender: 'pat' }).applied).toBe(true)
  })

  it('reads events of before there were digests', () => {
    expect(told({})).toMatchObject({ applied: true, record: { modifications: {} } })
    expect(told({}, { undone: true }).applied).toBe(false)
  })

  it('says of any events what the newest about each digest says', () => {
    const digest = fc.constantFrom('a', 'b', 'c')
    const one = fc.record({ digests: fc.uniqueArray(digest, { minLength: 1 }), undone: fc.boolean() })
    fc.assert(
      fc.property(fc.array(one), (bodies) => {
        const stands = (['a', 'b', 'c'] as const).filter(
          (name) => bodies.findLast(({ digests }) => digests.includes(name))?.undone === false,
        )
        const { applied, record } = told(...bodies.map((body, index) => ({ ...body, nonce: String(index) })))
        expect(applied).toBe(stands.length > 0)
        expect(
          Object.entries(record?.modifications ?? {})
            .flatMap(([name, said]) => (said === 'applied' ? [name] : []))
            .sort(),
        ).toEqual(stands)
      }),
    )
  })
})
