import type { Fact } from '@passover/schemas'
import { describe, expect, it } from 'vitest'
import { CHILD, cancel, child, ends, fold } from '../../testing/open-facts.js'
import { KEY, step, T0, timedId } from '../../testing/samples.js'

describe('the cascade', () => {
  const work = step('work', 10)

  it('lets a child live whose proof names its open parent', () => {
    expect(fold(work, child('work', 11, 10)).due(T0 + 100)).toEqual([])
  })

  it.each<[string, Fact[], string]>([
    ['whose parent is unknown', [child('work', 11, 10)], 'parent ended'],
    ['whose parent has ended before', [work, step('return', 11), child('work', 12, 10)], 'parent ended'],
    ['whose parent ends', [work, child('work', 11, 10), step('return', 12)], 'parent ended'],
    [
      'whose parent is ended by the system',
      [work, child('work', 11, 10), step('return', 12, { by: 'passover', code: 'E010' })],
      'parent ended',
    ],
    ['whose parent is only held', [step('held', 10), child('work', 11, 10)], 'parent ended'],
    ['of an earlier attempt', [work, child('work', 11, 10), step('fence', 12)], 'earlier attempt'],
    ['that is stored after the fence with the earlier proof', [work, step('fence', 11), child('work', 12, 10)], 'earlier attempt'],
    ['without a proof', [work, child('work', 11, undefined)], 'earlier attempt'],
    ['that waits for approval', [work, child('held', 11, 10), step('return', 12)], 'parent ended'],
  ])('ends a child %s at once', (_, facts, why) => {
    const open = fold(...facts)
    expect(ends(open, T0 + 20)).toEqual([
      [CHILD.id, 'E043', why, facts.find((fact) => fact.type === 'step' && fact.key === CHILD)?.sequence],
    ])
  })

  it('is not touched by an ignored fence or return', () => {
    expect(fold(work, child('work', 11, 10), step('fence', 12, { attempt: 5 }), step('return', 13, { attempt: 2 })).due(T0 + 100)).toEqual(
      [],
    )
  })

  it('leaves the child of the newest attempt alone', () => {
    const second = { ...CHILD, id: timedId(T0, 'child111111111') }
    const open = fold(work, child('work', 11, 10), step('fence', 12), child('work', 13, 12, { key: second }))
    expect(ends(open, T0 + 100)).toEqual([[CHILD.id, 'E043', 'earlier attempt', 11]])
    open.apply(step('return', 14, { attempt: 2 }))
    expect(ends(open, T0 + 100)).toEqual([[second.id, 'E043', 'parent ended', 13]])
  })

  it('goes down level by level', () => {
    const grandchild = { originator: 'scout', subagent: 'eve', id: timedId(T0, 'grand000000000') }
    const open = fold(work, child('work', 11, 10), step('work', 12, { key: grandchild, parent: CHILD, proof: 11 }), cancel(13))
    expect(ends(open, T0 + 20)).toEqual([[KEY.id, 'E043', 'cancelled', 10]])
    open.apply(step('return', 14, { by: 'passover', code: 'E043' }))
    expect(ends(open, T0 + 20)).toEqual([[CHILD.id, 'E043', 'parent ended', 11]])
    open.apply(step('return', 15, { by: 'passover', code: 'E043', key: CHILD }))
    expect(ends(open, T0 + 20)).toEqual([[grandchild.id, 'E043', 'parent ended', 12]])
  })

  it('judges approved work anew', () => {
    const open = fold(work, child('held', 11, 10), step('fence', 12), child('work', 13, 12))
    expect(open.due(T0 + 100)).toEqual([])
    open.apply(step('fence', 14, { attempt: 3 }))
    expect(ends(open, T0 + 100)).toEqual([[CHILD.id, 'E043', 'earlier attempt', 13]])
  })
})
