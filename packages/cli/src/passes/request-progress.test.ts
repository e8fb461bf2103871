import { describe, expect, it } from 'vitest'
import { approveHint, heldText } from './request-progress.js'

describe('a pass that waits for a person', () => {
  it('is approved by another person than who asked, except by the only person of a local server', () => {
    expect(approveHint({ id: 'p', from: 'alice' }, 'bob')).toBe('passover approve p')
    expect(approveHint({ id: 'p', from: 'bob' }, 'bob')).toContain('passover approve p (by a person other than bob')
    expect(approveHint({ id: 'p', from: 'bob' }, 'bob', 'bob')).toBe('passover approve p')
    // Just sent: who may approve it is not known yet.
    expect(heldText({ id: 'p', from: 'alice' }, 'bob')).toBe('Held until a person approves: passover approve p')
    expect(heldText({ id: 'p', from: 'bob' }, 'bob')).toContain(
      'another person must approve it, except on a local server with a single person',
    )
  })
})
