import { describe, expect, it } from 'vitest'
import { approveHint } from './request-progress.js'

describe('a pass that waits for a person', () => {
  it('sends to somebody else who asked under their own name', () => {
    expect(approveHint({ id: 'p', from: 'alice' }, 'bob')).toBe('passover approve p')
    expect(approveHint({ id: 'p', from: 'bob' }, 'bob')).toContain('passover approve p --as <person>')
  })
})
