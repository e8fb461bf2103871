import { encode, type StoredMessage, Subjects } from '@passover/bus'
import type { Fact } from '@passover/schemas'
import { describe, expect, it } from 'vitest'
import { describeEvent } from './describe-event.js'

const bus = { subjects: new Subjects() }
const key = { originator: 'alice', subagent: 'audit', id: 'pass-0000001' }
const at = { sequence: 3, time: 1000 }

function message(subject: string, body: unknown = {}): StoredMessage {
  return {
    subject,
    ...at,
    headers: { get: () => undefined, last: () => undefined, pairs: () => [], text: () => '' },
    data: encode(body, 'json'),
  }
}

const happening = (fact: Fact, stored = message('x')) => describeEvent(stored, fact, bus)

describe('what happens', () => {
  it('is told with who, whom, which and what', () => {
    expect(happening({ type: 'request', originator: 'alice', subagent: 'audit', ...at, id: key.id })).toEqual({
      ...at,
      kind: 'request',
      originator: 'alice',
      subagent: 'audit',
      by: 'alice',
      id: key.id,
    })
    expect(happening({ type: 'request', originator: 'alice', subagent: 'audit', ...at })).not.toHaveProperty('id')
    expect(happening({ type: 'step', kind: 'return', key, by: 'passover', ...at, attempt: 0, code: 'E010' })).toMatchObject({
      kind: 'return',
      by: 'passover',
      detail: 'E010',
    })
    expect(happening({ type: 'step', kind: 'fence', key, by: 'audit', ...at, attempt: 2 })).toMatchObject({ kind: 'fence', attempt: 2 })
    expect(happening({ type: 'decision', key, item: 'dispatch', person: 'bob', ...at, verdict: 'approve' })).toMatchObject({
      kind: 'decision',
      by: 'bob',
      detail: 'dispatch approve',
    })
    expect(happening({ type: 'decision', key, item: 'apply', person: 'bob', ...at })).toMatchObject({ detail: 'apply ?' })
  })

  it('marks the name that a process claimed for a person, where the installation checks none', () => {
    const unverified = { ...bus, names: { unverified: true as const } }
    const of = (fact: Fact, stored = message('x')) => describeEvent(stored, fact, unverified)?.unverified
    const event = (kind: 'cancel' | 'applied' | 'settled' | 'progress', sender: string) => of({ type: 'event', kind, key, sender, ...at })
    expect(of({ type: 'decision', key, item: 'dispatch', person: 'bob', ...at, verdict: 'approve' })).toBe(true)
    expect([event('cancel', 'bob'), event('settled', 'bob'), event('applied', 'bob')]).toEqual([true, true, true])
    expect([of({ type: 'other', ...at }, message('agent.bob')), of({ type: 'other', ...at }, message('policy.bob'))]).toEqual([true, true])
    // No person, or one that the server checked.
    expect([event('cancel', 'alice'), event('cancel', 'passover'), event('progress', 'audit')]).toEqual([undefined, undefined, undefined])
    expect(happening({ type: 'decision', key, item: 'dispatch', person: 'bob', ...at })).not.toHaveProperty('unverified')
  })

  it('carries the text of an event on one line', () => {
    const event = (body: unknown) => happening({ type: 'event', kind: 'progress', key, sender: 'audit', ...at }, message('x', body))
    expect(event({ message: 'half\nway' })).toMatchObject({ kind: 'progress', detail: 'half way' })
    expect(event({ reason: 'enough' })).toMatchObject({ detail: 'enough' })
    expect(event({})).not.toHaveProperty('detail')
    expect(event('text')).not.toHaveProperty('detail')
  })

  it('names the agent of a registration and the version of a policy', () => {
    const change = (subject: string, body?: unknown) => happening({ type: 'other', ...at }, message(subject, body))
    expect(change('agent.bob')).toEqual({ ...at, kind: 'agent', by: 'bob' })
    expect(change('agent.bob', { v: 1, name: 'greeter', record: {} })).toMatchObject({ by: 'bob', detail: 'registration of greeter' })
    expect(change('agent.bob', { v: 1, name: 'greeter' })).toMatchObject({ detail: 'removal of greeter' })
    expect(change('policy.bob', { v: 1, version: 3 })).toEqual({ ...at, kind: 'policy', by: 'bob', detail: 'version 3' })
  })

  it('leaves out acknowledgments and advisories', () => {
    expect(happening({ type: 'other', ...at }, message('acknowledged.alice'))).toBeUndefined()
    expect(happening({ type: 'advisory', consumer: 'c', ...at })).toBeUndefined()
  })
})
