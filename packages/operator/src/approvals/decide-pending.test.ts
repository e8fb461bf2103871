import { describe, expect, it } from 'vitest'
import { refuseOwnDecision } from './decide-pending.js'

type Pass = Parameters<typeof refuseOwnDecision>[0]
const pass = {
  key: { originator: 'alice', subagent: 'audit', id: 'pass-0000001' },
  row: { id: 'pass-0000001' },
  control: { ancestors: ['root'] },
} as unknown as Pass

describe('a decision about a pass of one’s own', () => {
  it('is refused with exit 4 and what to do, for everybody who takes part', () => {
    for (const person of ['alice', 'audit', 'root'])
      expect(() => refuseOwnDecision(pass, person), person).toThrow(
        expect.objectContaining({ code: 'E013', exit: 4, hint: expect.stringMatching(/another person .*approve \S+;.*passover cancel/) }),
      )
  })

  it('is allowed to the only person of a local server who began its chain, and to no agent of it', () => {
    const local = { ...pass, control: { ancestors: ['root', 'alice'], local_person: 'root' } }
    expect(() => refuseOwnDecision(local, 'root')).not.toThrow()
    for (const agent of ['alice', 'audit'])
      expect(() => refuseOwnDecision({ ...local, control: { ...local.control, local_person: agent } }, agent)).toThrow()
    const approvers = { ...local, control: { ...local.control, policy: { approvers: ['maria'] } } }
    expect(() => refuseOwnDecision(approvers, 'root')).toThrow(expect.objectContaining({ code: 'E013' }))
  })

  it('is nobody else’s', () => {
    expect(() => refuseOwnDecision(pass, 'bob')).not.toThrow()
    expect(() => refuseOwnDecision({ ...pass, control: undefined }, 'root')).not.toThrow()
  })
})
