import type { AgentRecord } from '@passover/schemas'
import { describe, expect, it } from 'vitest'
import { type AgentChange, applyAgentChange, parseDefault } from './agent-record.js'

const BY = { person: 'bob', now: 1_800_000_000_000, next_sequence: 7 }
const make = (change: Omit<AgentChange, 'name'> = {}, before?: AgentRecord) => applyAgentChange(before, { name: 'audit', ...change }, BY)

describe('the record of an agent', () => {
  it('is a subagent that originates within a pass, where nothing is said; who receives nothing originates by itself', () => {
    expect(make()).toEqual({
      name: 'audit',
      roles: { originates: 'within_a_pass', subagent: true },
      registered_by: 'bob',
      updated_at: BY.now,
    })
    expect(make({ subagent: false }).roles).toEqual({ originates: 'always', subagent: false })
    expect(make({ subagent: false, originates: 'never' }).roles).toEqual({ originates: 'never', subagent: false })
  })

  it('that turns follows its kind, but who may never pass over does not get to by a word about something else', () => {
    const turned = (originates: AgentRecord['roles']['originates'], subagent: boolean) =>
      make({ subagent }, make({ originates, subagent: !subagent })).roles
    expect(turned('within_a_pass', false)).toEqual({ originates: 'always', subagent: false })
    expect(turned('always', true)).toEqual({ originates: 'within_a_pass', subagent: true })
    expect(turned('never', false)).toEqual({ originates: 'never', subagent: false })
    expect(turned('never', true)).toEqual({ originates: 'never', subagent: true })
  })

  it('keeps what is not named', () => {
    const before = make({ description: 'checks', skills: ['types'], originates: 'never', defaults: { max_active: 2, timeout_ms: 5_000 } })
    expect(make({ defaults: { max_active: 3 } }, before)).toMatchObject({
      description: 'checks',
      skills: ['types'],
      roles: { originates: 'never', subagent: true },
      defaults: { max_active: 3, timeout_ms: 5_000 },
    })
    expect(make({ unset: ['max_active', 'timeout_ms'] }, before)).not.toHaveProperty('defaults')
  })

  it('says that its agent was revoked until that is taken back, whatever else is changed', () => {
    const revoked = make({ revoked_at: 5 }, make({ description: 'checks' }))
    expect(revoked).toMatchObject({ description: 'checks', revoked_at: 5 })
    const file = { path: 'audit.json', record: { roles: { originates: 'always', subagent: true }, revoked_at: 9 } }
    for (const change of [{ description: 'tests' }, { file }]) expect(make(change, revoked).revoked_at).toBe(5)
    expect(make({ revoked_at: null }, revoked)).not.toHaveProperty('revoked_at')
  })

  it('of a file takes the place of the one before; flags win over it', () => {
    const before = make({ description: 'old', defaults: { max_active: 2 } })
    const record = {
      name: 'audit',
      roles: { originates: 'always', subagent: true },
      skills: ['a'],
      workers: { up: 1 },
      registered_by: 'eve',
    }
    const made = make({ file: { path: 'a.json', record }, skills: ['b'] }, before)
    expect(made).toEqual({
      name: 'audit',
      roles: { originates: 'always', subagent: true },
      skills: ['b'],
      registered_by: 'bob',
      updated_at: BY.now,
    })
    expect(() => make({ file: { path: 'a.json', record: { name: 'other' } } })).toThrow('a.json is the record of other, not of audit')
    expect(() => make({ file: { path: 'a.json', record: [] } })).toThrow('a.json is not a JSON object')
  })

  it('that is wrong names each field and what it may be (E030)', () => {
    const wrong = { file: { path: 'a.json', record: { roles: { originates: 'sometimes', subagent: 'yes' } } }, defaults: { max_active: 0 } }
    expect(() => make(wrong)).toThrow(/a\.json: .*roles\.originates.*roles\.subagent.*defaults\.max_active/)
    expect(() => make({ defaults: { max_activ: 2 } as never })).toThrow(/defaults.*max_activ/)
  })

  it('reads --default field=value as JSON, else as text', () => {
    expect(['a=3', 'a=true', 'a=x=y', 'a={"b":1}'].map(parseDefault)).toEqual([
      ['a', 3],
      ['a', true],
      ['a', 'x=y'],
      ['a', { b: 1 }],
    ])
    expect(() => parseDefault('=3')).toThrow('field=value')
  })
})
