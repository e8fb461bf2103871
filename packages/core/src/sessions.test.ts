import { describe, expect, it } from 'vitest'
import { control } from '../testing/samples.js'
import { countedSession, sessionToken } from './sessions.js'

const root = { originator: 'alice', subagent: 'audit', id: 'some-given-id' }

describe('the session that a pass counts for', () => {
  it("is its root's, whatever a child claims", () => {
    const parent = { ...control(), root, session_id: 'one' }
    expect(countedSession(parent, 'one')).toBeUndefined()
    expect(countedSession(parent, 'other')).toBe('one')
    expect(countedSession({ ...parent, session_id: 'other', counted_session: 'one' }, 'third')).toBe('one')
    const token = sessionToken({ root, session_id: 'one' })
    expect(sessionToken({ root, session_id: 'other', counted_session: 'one' })).toBe(token)
    expect(token).toMatch(/^[0-9a-f]{16}$/)
  })

  it("is apart for each root's originator, so that nobody uses up another's", () => {
    const other = { ...root, originator: 'eve' }
    expect(sessionToken({ root: other, session_id: 'one' })).not.toBe(sessionToken({ root, session_id: 'one' }))
  })

  it('is the root pass itself where nobody named one', () => {
    const token = sessionToken({ root, session_id: '' })
    expect(sessionToken({ root, session_id: 'claimed', counted_session: '' })).toBe(token)
    expect(sessionToken({ root: { ...root, id: 'another-id' }, session_id: '' })).not.toBe(token)
  })
})
