import { describe, expect, it } from 'vitest'
import { approveHint } from './request-progress.js'

describe('a pass that waits for a person', () => {
  it('is approved by another person than who asked, except by the only person of a local server', () => {
    expect(approveHint({ id: 'p', from: 'alice' }, 'bob')).toBe('passover approve p')
    expect(approveHint({ id: 'p', from: 'bob' }, 'bob')).toContain('passover approve p (by another person than bob')
    expect(approveHint({ id: 'p', from: 'bob' }, 'bob', 'bob')).toBe('passover approve p')
  })
})
