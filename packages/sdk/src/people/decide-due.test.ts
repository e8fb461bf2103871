import { describe, expect, it } from 'vitest'
import { refuseOwn } from './decide-due.js'

type Pass = Parameters<typeof refuseOwn>[0]
const pass = {
  key: { originator: 'alice', subagent: 'audit', id: 'pass-0000001' },
  row: { id: 'pass-0000001' },
  control: { ancestors: ['root'] },
} as unknown as Pass

describe('a decision about a pass of one’s own', () => {
  it('is refused with exit 4 and what to do, for everybody who takes part', () => {
    for (const person of ['alice', 'audit', 'root'])
      expect(() => refuseOwn(pass, person), person).toThrow(
        expect.objectContaining({ code: 'E013', exit: 4, hint: expect.stringMatching(/approve \S+ --as <person>.*passover cancel/) }),
      )
  })

  it('is nobody else’s', () => {
    expect(() => refuseOwn(pass, 'bob')).not.toThrow()
    expect(() => refuseOwn({ ...pass, control: undefined }, 'root')).not.toThrow()
  })
})
