import { describe, expect, it } from 'vitest'
import { control } from '../../testing/samples.js'
import { countedSession, countToken, rootSession } from './session-counter.js'

const root = { originator: 'alice', subagent: 'audit', id: 'some-given-id' }
const own = { root, originating_agent_id: 'alice', session_id: 'one' }
const child = { root, parent: root, originating_agent_id: 'audit', session_id: 'one' }

describe('the count that a pass is added to', () => {
  it('is the session of its originator where it has no parent', () => {
    const token = countToken(own)
    expect(token).toMatch(/^[0-9a-f]{16}$/)
    expect(countToken({ ...own, root: { ...root, id: 'another-id' } })).toBe(token)
    expect(countToken({ ...own, originating_agent_id: 'eve', root: { ...root, originator: 'eve' } })).not.toBe(token)
  })

  it('is none where the originator named no session', () => {
    expect(countToken({ ...own, unnamed_session: true })).toBeUndefined()
    expect(countToken({ ...own, session_id: '' })).toBeUndefined()
  })

  it('of a child is what its originator asks for within the tree, whatever session it claims', () => {
    const token = countToken(child)
    expect(token).not.toBe(countToken(own))
    expect(countToken({ ...child, session_id: 'claimed', unnamed_session: true })).toBe(token)
    expect(countToken({ ...child, root: { ...root, id: 'another-id' } })).not.toBe(token)
  })

  it('is never one that another agent adds to', () => {
    expect(countToken({ ...child, originating_agent_id: 'mallory' })).not.toBe(countToken(child))
    expect(countToken({ ...child, originating_agent_id: 'alice' })).not.toBe(countToken(own))
  })
})

describe('the session that a pass belongs to', () => {
  it("is its root's, whatever a child claims", () => {
    const parent = { ...control(), root, session_id: 'one' }
    expect(countedSession(parent, 'one')).toBeUndefined()
    expect(countedSession(parent, 'other')).toBe('one')
    expect(countedSession({ ...parent, session_id: 'other', counted_session: 'one' }, 'third')).toBe('one')
    expect(rootSession({ root, session_id: 'one' })).toEqual({ originator: 'alice', session: 'one' })
    expect(rootSession({ root, session_id: 'other', counted_session: 'one' })).toEqual({ originator: 'alice', session: 'one' })
  })
})
