import { describe, expect, it } from 'vitest'
import { asked, CHILD, cancel, child, ends, fold, OPEN_RULES } from '../../testing/open-facts.js'
import { KEY, step, T0, timedId } from '../../testing/samples.js'
import { OpenPasses } from './open-passes.js'

describe('deadlines', () => {
  it('ends admitted work at its time plus timeout_ms, not before', () => {
    const open = fold(step('work', 10, { timeout_ms: 1_000 }))
    expect(open.nextAt()).toBe(T0 + 1_010)
    expect(open.due(T0 + 1_009)).toEqual([])
    expect(open.due(T0 + 1_010)).toEqual([
      { kind: 'end', key: KEY, code: 'E010', why: 'deadline passed', guard: 10, journal: open.journalOf(KEY) },
    ])
    expect(open.size).toBe(1)
  })

  it('gives out again what did not end', () => {
    const open = fold(step('work', 10, { timeout_ms: 1_000 }))
    expect(open.due(T0 + 2_000)).toHaveLength(1)
    expect(open.due(T0 + 6_999)).toEqual([])
    expect(open.due(T0 + 7_000)).toHaveLength(1)
    open.apply(step('return', 11, { by: 'passover', code: 'E010' }))
    expect(open.due(T0 + 99_000)).toEqual([])
    expect([open.size, open.nextAt(), open.journalOf(KEY)]).toEqual([0, undefined, undefined])
  })

  it('guards on the last step, counted or not, and counts from the work step', () => {
    const open = fold(step('work', 10, { timeout_ms: 1_000 }), step('fence', 12), step('fence', 13), step('return', 14))
    expect(ends(open, T0 + 1_010)).toEqual([[KEY.id, 'E010', 'deadline passed', 14]])
  })

  it("ends what is held at its approval's expiry", () => {
    const open = fold(step('held', 10, { expires_ms: 700 }))
    expect(open.due(T0 + 709)).toEqual([])
    expect(ends(open, T0 + 710)).toEqual([[KEY.id, 'E013', 'approval expired', 10]])
    expect(fold(step('held', 10)).nextAt()).toBe(T0 + 10 + 86_400_000)
  })

  it("ends what is held at its parent's deadline, if that is sooner", () => {
    const work = step('work', 10, { timeout_ms: 1_000 })
    const open = fold(work, child('held', 11, 10, { expires_ms: 5_000 }))
    expect(ends(open, T0 + 1_010)).toEqual([
      [KEY.id, 'E010', 'deadline passed', 10],
      [CHILD.id, 'E013', "parent's deadline passed", 11],
    ])
    expect(ends(fold(work, child('held', 11, 10, { expires_ms: 50 })), T0 + 100)).toEqual([[CHILD.id, 'E013', 'approval expired', 11]])
  })

  it('starts anew when held work is approved', () => {
    const open = fold(step('held', 10, { expires_ms: 700 }), step('work', 11, { timeout_ms: 5_000 }))
    expect(open.due(T0 + 710)).toEqual([])
    expect(open.nextAt()).toBe(T0 + 5_011)
  })

  it('ends the earlier one first', () => {
    const open = fold(step('work', 10, { timeout_ms: 900 }), step('work', 11, { key: CHILD, timeout_ms: 500 }))
    expect(ends(open, T0 + 5_000).map(([id]) => id)).toEqual([CHILD.id, KEY.id])
  })
})

describe('reading', () => {
  it('ignores facts that it has read', () => {
    const open = fold(step('work', 10, { timeout_ms: 1_000 }))
    open.apply(step('return', 9))
    open.apply(step('return', 10))
    expect([open.size, open.position]).toEqual([1, 10])
  })

  it('takes note of nothing else', () => {
    const open = fold(
      { type: 'other', sequence: 1, time: T0 },
      { type: 'advisory', consumer: 'x', sequence: 2, time: T0 },
      { type: 'decision', key: KEY, item: 'dispatch', person: 'bob', sequence: 3, time: T0 },
      { ...cancel(4), kind: 'progress' },
    )
    expect([open.size, open.unanswered, open.position, open.nextAt()]).toEqual([0, 0, 4, undefined])
  })
})

describe('what else it knows', () => {
  it('whether a request still waits', () => {
    const open = fold(asked(3))
    expect([open.awaits(3), open.awaits(4)]).toEqual([true, false])
    open.apply(step('work', 4))
    expect(open.awaits(3)).toBe(false)
  })

  it('the lowest open work of a subagent', () => {
    const other = { ...KEY, id: timedId(T0, 'other000000000') }
    const open = fold(
      step('work', 4, { key: CHILD }),
      step('held', 5, { key: other }),
      step('work', 7),
      step('work', 9, { key: { ...KEY, id: timedId(T0, 'third000000000') } }),
    )
    expect([open.lowestOpenWork('audit'), open.lowestOpenWork('scout'), open.lowestOpenWork('eve')]).toEqual([7, 4, undefined])
    open.apply(step('work', 10, { key: other }))
    open.apply(step('return', 11))
    expect(open.lowestOpenWork('audit')).toBe(9)
  })
})

describe('snapshots', () => {
  it('cannot be restored from something else', () => {
    const good = fold(step('work', 1)).snapshot()
    const bad = [
      undefined,
      null,
      5,
      {},
      { v: 2, position: 1 },
      { v: 1 },
      { v: 1, position: 5 },
      { ...good, passes: [{ key: 'x' }] },
      { ...good, asked: [null] },
    ]
    for (const data of bad) expect(OpenPasses.restore(data, OPEN_RULES)).toBeUndefined()
    expect(OpenPasses.restore(good, OPEN_RULES)?.position).toBe(1)
    expect(OpenPasses.restore({ ...good, passes: [{ ...good.passes[0], work: null }] }, OPEN_RULES)).toBeUndefined()
  })

  // Versions before look for them nowhere else: a pass cancelled before it began would run.
  it('in slices has all cancels in the first', () => {
    const early = [1, 2, 3, 4].map((n) => cancel(n, { key: { ...KEY, id: timedId(T0, `early-${n}00000000`) } }))
    const open = fold(...early, step('work', 5), asked(6))
    const [first, ...others] = open.slices(1)
    expect([first?.cancels.length, others.length > 0, others.flatMap(({ cancels }) => cancels)]).toEqual([4, true, []])
  })

  it('does not hide what is no fault of the data', () => {
    const good = fold(step('work', 1)).snapshot()
    const broken = Object.defineProperty({ ...good }, 'passes', {
      get() {
        throw new RangeError('not the data')
      },
    })
    expect(() => OpenPasses.restore(broken, OPEN_RULES)).toThrow('not the data')
  })
})
