import type { Bus } from '@passover/bus'
import type { AnsweredPass } from '@passover/schemas'
import { describe, expect, it } from 'vitest'
import { decidedByOther } from './previous-decision.js'

const bus = { now: () => 10_000 } as unknown as Bus
const pass = { row: { id: 'pass-0000001' }, status: 'returned' } as unknown as AnsweredPass
const took = (...choices: ('taken' | 'rejected')[]) => ({
  item: 'apply',
  verdict: 'approve',
  standing: {
    person: 'maria',
    verdict: 'approve',
    time: 6_000,
    modifications: Object.fromEntries(choices.map((one, n) => [`m${n}`, one])),
  },
})

describe('a decision that came too late', () => {
  it('is as good as the one that stands if it takes the same changes', () => {
    expect(decidedByOther(bus, pass, took('taken', 'taken'))).toMatchObject({ exit: 0 })
    expect(decidedByOther(bus, pass, { ...took('taken', 'rejected', 'taken'), only: [1, 3] })).toMatchObject({ exit: 0 })
  })

  it('is not if it takes others, and says how many were taken', () => {
    const all = decidedByOther(bus, pass, took('taken', 'rejected', 'rejected'))
    expect(all).toMatchObject({ exit: 1, sentence: expect.stringContaining('maria already decided: approved 1 of 3 changes, ') })
    expect(all.document).toMatchObject({ decided: false, modifications: { m0: 'taken', m1: 'rejected', m2: 'rejected' } })
    expect(decidedByOther(bus, pass, { ...took('taken', 'rejected'), only: [2] }).exit).toBe(1)
  })

  it('says where nobody checked the name of who was faster', () => {
    const before = { ...took('taken'), standing: { ...took('taken').standing, unverified: true as const } }
    expect(decidedByOther(bus, pass, before)).toMatchObject({
      sentence: expect.stringMatching(/^maria \(unverified\) already decided/),
      document: { by: 'maria', unverified: true },
    })
  })

  it('is one`s own where it was: nobody was faster', () => {
    const own = { ...bus, identity: 'maria' } as Bus
    expect(decidedByOther(own, pass, took('taken')).sentence).toMatch(/^maria already decided: approved 1 of 1 change, 4 s/)
  })

  it('of another verdict exits by what stands', () => {
    const standing = { person: 'maria', verdict: 'deny', time: 6_000 }
    expect(decidedByOther(bus, pass, { item: 'dispatch', verdict: 'approve', standing }).exit).toBe(6)
    expect(decidedByOther(bus, pass, { item: 'dispatch', verdict: 'deny', standing })).toMatchObject({
      exit: 0,
      sentence: expect.stringMatching(/: denied 4/),
    })
  })
})
