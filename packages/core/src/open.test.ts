import type { EventFact, Fact, PassKey, RequestFact, Step } from '@passover/schemas'
import { describe, expect, it } from 'vitest'
import { KEY, step, T0, timedId, WINDOW } from '../testing/samples.js'
import type { DueEnd } from './due.js'
import { endingError } from './ending.js'
import { OpenPasses } from './open.js'

const RULES = { id_window_ms: WINDOW, look_after_ms: 5_000 }
const CHILD: PassKey = { originator: 'audit', subagent: 'scout', id: timedId(T0, 'child000000000') }

function fold(...facts: Fact[]): OpenPasses {
  const open = new OpenPasses(RULES)
  for (const fact of facts) open.apply(fact)
  return open
}

function asked(sequence: number, more: Partial<RequestFact> = {}): RequestFact {
  return { type: 'request', originator: 'alice', subagent: 'audit', sequence, time: T0 + sequence, id: KEY.id, ...more }
}

function cancel(sequence: number, more: Partial<EventFact> = {}): EventFact {
  return { type: 'event', kind: 'cancel', key: KEY, sender: 'alice', sequence, time: T0 + sequence, ...more }
}

function child(kind: 'held' | 'work', sequence: number, proof: number | undefined, more: Partial<Step> = {}): Step {
  return step(kind, sequence, { key: CHILD, parent: KEY, proof, ...more })
}

function ends(open: OpenPasses, now: number): [string, string, string, number][] {
  return open
    .due(now)
    .map((due) => (due.kind === 'end' ? [due.key.id, due.code, due.why, due.guard] : ['look', '', '', due.request.sequence]))
}

function end(open: OpenPasses, now: number): DueEnd {
  const due = open.due(now)
  if (due.length !== 1 || due[0]?.kind !== 'end') throw new Error(`not one end: ${JSON.stringify(due)}`)
  return due[0]
}

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

describe('requests that nobody answered', () => {
  it('are looked at after a while, then ended at their own time', () => {
    const open = fold(asked(3))
    expect([open.unanswered, open.size]).toEqual([1, 0])
    expect(open.due(T0 + 5_002)).toEqual([])
    expect(open.due(T0 + 5_003)).toEqual([{ kind: 'look', request: asked(3) }])
    open.learn(3, { key: KEY, timeout_ms: 30_000 })
    expect(open.nextAt()).toBe(T0 + 30_003)
    expect(end(open, T0 + 30_003)).toEqual({
      kind: 'end',
      key: KEY,
      code: 'E010',
      why: 'never admitted',
      guard: 0,
      journal: { state: 'none', last: 0, valid: 0 },
      request: asked(3),
    })
  })

  it('are looked at again when nothing was learned', () => {
    const open = fold(asked(3))
    open.due(T0 + 6_000)
    expect(open.due(T0 + 10_999)).toEqual([])
    expect(open.due(T0 + 11_000)).toHaveLength(1)
  })

  it('end as expired where a first step would come too late (rule 5)', () => {
    const open = fold(asked(3))
    open.learn(3, { key: KEY, timeout_ms: WINDOW + 5_000 })
    expect(end(open, T0 + WINDOW + 5_003)).toMatchObject({ code: 'E005', why: 'id expired' })
    const untimed = fold(asked(3, { id: undefined, time: T0 + 50 }))
    untimed.learn(3, { key: { ...KEY, id: 'my-own-id-1' }, timeout_ms: WINDOW + 1 })
    expect(end(untimed, T0 + WINDOW + 51)).toMatchObject({ code: 'E005', key: { ...KEY, id: 'my-own-id-1' } })
  })

  it.each<[string, Step]>([
    ['the first step that names it', step('work', 4, { key: { ...KEY, id: 'another-id-1' }, request: 3 })],
    ['the first step of the pass that it claims', step('held', 4)],
    ['a refusal', step('return', 4, { by: 'passover', code: 'E003', request: 3 })],
    ['the refusal of a malformed one', step('return', 4, { by: 'passover', code: 'E005', request: 3, key: { ...KEY, id: 'bad-3' } })],
  ])('are answered by %s', (_, first) => {
    const open = fold(asked(3), first)
    expect(open.unanswered).toBe(0)
    expect(open.due(T0 + 6_000)).toEqual([])
  })

  it('are not answered by a step that does not count', () => {
    expect(fold(asked(3), step('fence', 4, { request: 3 })).unanswered).toBe(1)
    const late = { time: T0 + WINDOW + 1, request: 3 }
    expect(fold(asked(3), step('work', 4, late)).unanswered).toBe(1)
    expect(fold(asked(3), step('return', 4, { ...late, by: 'passover', code: 'E005' })).unanswered).toBe(0)
  })

  it("are not answered by what an agent's own return claims, nor by a step between others", () => {
    const eve: PassKey = { originator: 'alice', subagent: 'eve', id: 'pass-of-eve-1' }
    const hers = [step('work', 4, { key: eve }), step('return', 5, { key: eve, by: 'eve', request: 3 })]
    expect(fold(asked(3), ...hers).unanswered).toBe(1)
    expect(fold(asked(3), step('work', 4, { key: eve, request: 3 })).unanswered).toBe(1)
    const own = { ...KEY, id: 'another-id-1' }
    const returned = [step('work', 4, { key: own }), step('return', 5, { key: own, request: 3 })]
    expect(fold(asked(3), ...returned).unanswered).toBe(1)
    expect(fold(asked(3), step('return', 4, { key: own, by: 'passover', code: 'E003', request: 3 })).unanswered).toBe(0)
  })

  it('are all answered at once where many ask for one pass', () => {
    const many = Array.from({ length: 50 }, (_, i) => asked(i + 1))
    expect(fold(...many).unanswered).toBe(50)
    expect(fold(...many, step('work', 60, { request: 1 }), asked(61)).unanswered).toBe(0)
  })

  it('are forgotten one by one, or when their pass turns out to be begun', () => {
    const open = fold(asked(1), asked(2), asked(3, { id: undefined }), step('work', 5, { key: CHILD }))
    open.forget(1)
    open.forget(1)
    expect(open.unanswered).toBe(2)
    open.learn(99, { key: KEY, timeout_ms: 1 })
    open.apply(step('work', 6))
    expect(open.unanswered).toBe(1)
    open.learn(3, { key: KEY, timeout_ms: 1 })
    expect(open.unanswered).toBe(0)
  })

  it('do not take a claim that is no id', () => {
    const open = fold(asked(1, { id: 'a/b' }), asked(2, { id: 'bad-2' }))
    expect(open.unanswered).toBe(2)
    open.apply(cancel(3, { key: { ...KEY, id: 'bad-2' } }))
    expect(open.due(T0 + 10)).toEqual([])
  })
})

describe('cancels', () => {
  it.each<[string, Fact[], number]>([
    ['requested', [asked(3)], 0],
    ['held', [step('held', 3)], 3],
    ['open', [step('work', 3)], 3],
  ])('end what is %s at once', (_, facts, guard) => {
    const open = fold(...facts, cancel(4))
    expect(open.nextAt()).toBe(T0 + 4)
    expect(end(open, T0 + 4)).toMatchObject({ code: 'E043', why: 'cancelled', guard })
  })

  it('count also when the first step or the request comes later', () => {
    expect(ends(fold(cancel(2), step('work', 3)), T0 + 5)).toEqual([[KEY.id, 'E043', 'cancelled', 3]])
    expect(ends(fold(cancel(2), asked(3)), T0 + 5)).toEqual([[KEY.id, 'E043', 'cancelled', 0]])
    expect(ends(fold(asked(1), cancel(2), step('work', 3)), T0 + 5)).toEqual([[KEY.id, 'E043', 'cancelled', 3]])
    const learned = fold(asked(1, { id: undefined }), cancel(2))
    expect(learned.due(T0 + 5)).toEqual([])
    learned.learn(1, { key: KEY, timeout_ms: 99 })
    expect(ends(learned, T0 + 5)).toEqual([[KEY.id, 'E043', 'cancelled', 0]])
  })

  it('win over the deadline, but not over an expired id', () => {
    expect(ends(fold(step('work', 3), cancel(4)), T0 + 99_000)).toEqual([[KEY.id, 'E043', 'cancelled', 3]])
    expect(ends(fold(asked(3), cancel(4)), T0 + WINDOW + 1)).toEqual([[KEY.id, 'E005', 'id expired', 0]])
  })

  it("are anybody's but the subagent's", () => {
    expect(fold(step('work', 3), cancel(4, { sender: 'audit' })).due(T0 + 5)).toEqual([])
    expect(fold(step('work', 3), cancel(4, { sender: 'bob' })).due(T0 + 5)).toHaveLength(1)
  })

  it('of a pass that ended leave the next request alone', () => {
    const open = fold(step('work', 3), cancel(4), step('return', 5), asked(6))
    expect(open.due(T0 + 10)).toEqual([])
    expect(fold(cancel(2), step('return', 3, { by: 'passover', code: 'E003' }), asked(6)).due(T0 + 10)).toEqual([])
  })

  it('hold for one window and no longer', () => {
    const id = '1b4e28ba-2fa1-41d2-883f-0016d3cca427'
    const of = { key: { ...KEY, id } }
    const again = (time: number) => fold(cancel(2, of), asked(4, { id, time })).nextAt()
    expect(again(T0 + 2 + WINDOW)).toBe(T0 + 2 + WINDOW)
    expect(again(T0 + 2 + WINDOW + 1)).toBe(T0 + 2 + WINDOW + 1 + 5_000)
    const begun = fold(cancel(2, of), step('work', 4, { ...of, time: T0 + 2 * WINDOW }))
    expect(begun.nextAt()).toBe(T0 + 2 * WINDOW + 30_000)
  })

  it("of others' ids do not push out one's own", () => {
    const made = Array.from({ length: 10_001 }, (_, i) => cancel(i + 3, { key: { ...CHILD, id: `other-id-${i}` }, time: T0 + 3 }))
    const open = fold(cancel(2), ...made)
    expect(open.snapshot().cancels).toHaveLength(10_001)
    open.apply(asked(20_000))
    expect(open.nextAt()).toBe(T0 + 20_000)
    expect(end(open, T0 + 20_000)).toMatchObject({ why: 'cancelled' })
  })

  it('of an originator that is heard no more are forgotten', () => {
    const open = fold(cancel(2), cancel(3, { key: CHILD, time: T0 + 3 + 2 * WINDOW }))
    expect(open.snapshot().cancels).toEqual([[`audit/scout/${CHILD.id}`, T0 + 3 + 2 * WINDOW]])
  })

  it('are kept for one window, and not without limit', () => {
    const later = cancel(3, { key: CHILD, time: T0 + 2 + WINDOW + 1 })
    expect(fold(cancel(2), later, asked(4)).nextAt()).toBe(T0 + 5_004)
    const many = Array.from({ length: 10_000 }, (_, i) => cancel(i + 3, { key: { ...KEY, id: `other-id-${i}` }, time: T0 + 3 }))
    expect(fold(cancel(2), ...many, asked(20_000)).nextAt()).toBe(T0 + 25_000)
  })
})

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

describe('settle', () => {
  const now = T0 + 40_000
  const dueEnd = (...facts: Fact[]) => {
    const open = fold(...facts)
    return { open, due: end(open, now) }
  }

  it('is done where the return is found', () => {
    const { open, due } = dueEnd(step('work', 10))
    expect(open.settle(due, [step('work', 10), step('return', 12)], now)).toEqual({ kind: 'ended' })
    expect(open.settle(due, [step('return', 12)], now)).toEqual({ kind: 'ended' })
    expect(open.size).toBe(1)
  })

  it('stops where what was expected is gone, and ends what is below it', () => {
    const { open, due } = dueEnd(step('work', 10, { timeout_ms: 1_000 }), child('work', 11, 10, { timeout_ms: 60_000 }))
    expect(open.settle(due, [], now)).toEqual({ kind: 'gone' })
    expect(open.size).toBe(1)
    expect(ends(open, now)).toEqual([[CHILD.id, 'E043', 'parent ended', 11]])
  })

  it('tries again under the same guard where nothing is new', () => {
    const { open, due } = dueEnd(step('work', 10))
    expect(open.settle(due, [step('work', 10)], now)).toEqual({ kind: 'again', due, fenced: false })
    const waiting = fold(asked(3))
    waiting.learn(3, { key: KEY, timeout_ms: 10 })
    const never = end(waiting, now)
    expect(waiting.settle(never, [], now)).toEqual({ kind: 'again', due: never, fenced: false })
  })

  it('guards on the newer step, and says if that was a fence or counts for nothing', () => {
    const { open, due } = dueEnd(step('work', 10))
    const fenced = open.settle(due, [step('work', 10), step('fence', 12)], now)
    expect(fenced).toMatchObject({ kind: 'again', fenced: true, due: { code: 'E010', guard: 12, journal: { state: 'open', attempt: 2 } } })
    if (fenced.kind !== 'again') return
    expect(open.settle(fenced.due, [step('work', 10), step('fence', 12), step('return', 13)], now)).toMatchObject({
      kind: 'again',
      fenced: true,
      due: { guard: 13, refusals: 2 },
    })
  })

  it('does not count what approved it meanwhile as a refusal', () => {
    const { open, due } = dueEnd(step('held', 10, { expires_ms: 100 }))
    const settled = open.settle(due, [step('held', 10), step('work', 12, { time: T0 + 5_000 })], now)
    expect(settled).toMatchObject({ kind: 'again', fenced: false })
    expect(settled.kind === 'again' && settled.due.refusals).toBeUndefined()
  })

  it.each<[string, Partial<Step>[]]>([
    ['returns of an attempt that never was', Array.from({ length: 5 }, () => ({ kind: 'return', attempt: 9, by: 'audit' }) as const)],
    ['fences', Array.from({ length: 5 }, (_, i) => ({ kind: 'fence', attempt: i + 2, by: 'audit' }) as const)],
    ['both', Array.from({ length: 5 }, (_, i) => ({ kind: i % 2 ? 'fence' : 'return', attempt: 9, by: 'audit' }) as const)],
  ])('takes the last resort after five refusals by %s, and keeps it', (_, hostile) => {
    const { open, due } = dueEnd(step('work', 10))
    const found: Step[] = [step('work', 10)]
    let current = due
    for (const [i, more] of hostile.entries()) {
      expect(current.last_resort).toBeUndefined()
      found.push(step('return', 12 + i, more))
      open.apply(found.at(-1) as Step)
      const settled = open.settle(current, found, now)
      if (settled.kind !== 'again') throw new Error(settled.kind)
      current = settled.due
    }
    expect(current).toMatchObject({ refusals: 5, last_resort: 0, guard: 16 })
    expect(open.settle(current, found, now)).toEqual({ kind: 'again', due: current, fenced: false })
    const anew = end(open, now + 5_000)
    expect(anew.refusals).toBe(5)
    found.push(step('return', 20, { attempt: 9 }))
    expect(open.settle(anew, found, now + 5_000)).toMatchObject({ due: { refusals: 6, last_resort: 0 } })
  })

  it("expects the system's own return that counts for nothing, by the last resort", () => {
    const late = step('return', 4, { by: 'passover', code: 'E010', time: T0 + WINDOW + 1 })
    const after = T0 + 2 * WINDOW
    const open = fold(late, step('held', 5))
    expect(open.size).toBe(1)
    const settled = open.settle(
      { ...end(fold(step('work', 5)), after), refusals: 4 },
      [late, step('work', 5), step('return', 30, { attempt: 9 })],
      after,
    )
    expect(settled).toMatchObject({ due: { refusals: 5, last_resort: 4 } })
  })

  it('waits where the newer step makes it due no more', () => {
    const { open, due } = dueEnd(step('held', 10, { expires_ms: 100 }))
    expect(open.settle(due, [step('held', 10), step('work', 12, { time: T0 + 39_000 })], now)).toEqual({ kind: 'wait' })
    expect(open.settle(due, [step('held', 10), step('work', 12, { time: T0 + 5_000 })], now)).toMatchObject({
      kind: 'again',
      due: { code: 'E010', guard: 12 },
    })
  })

  it('ends a request that was admitted meanwhile only when it is due itself', () => {
    const requested = () => {
      const open = fold(asked(3))
      open.learn(3, { key: KEY, timeout_ms: 10 })
      return { open, due: end(open, now) }
    }
    const a = requested()
    expect(a.open.settle(a.due, [step('work', 12, { time: now - 5 })], now)).toEqual({ kind: 'wait' })
    expect(a.open.unanswered).toBe(0)
    const b = requested()
    expect(b.open.settle(b.due, [step('work', 12, { time: T0 + 1 })], now)).toMatchObject({
      kind: 'again',
      due: { code: 'E010', guard: 12 },
    })
    const c = requested()
    expect(c.open.settle(c.due, [step('return', 12, { by: 'passover', code: 'E003' })], now)).toEqual({ kind: 'ended' })
    expect(c.open.unanswered).toBe(0)
    const d = requested()
    expect(d.open.settle(d.due, [step('fence', 12)], now)).toMatchObject({
      kind: 'again',
      fenced: true,
      due: { code: 'E010', guard: 12, journal: { state: 'none' } },
    })
    d.open.forget(3)
    expect(d.open.settle(d.due, [step('fence', 12)], now)).toEqual({ kind: 'wait' })
  })

  it('still cancels what was admitted meanwhile', () => {
    const open = fold(asked(3), cancel(4))
    const due = end(open, T0 + 10)
    expect(open.settle(due, [step('work', 12)], T0 + 20)).toMatchObject({
      kind: 'again',
      due: { code: 'E043', why: 'cancelled', guard: 12 },
    })
  })

  it('still ends a child below a parent that is not open', () => {
    const open = fold(child('held', 11, 10))
    const due = end(open, T0 + 20)
    expect(open.settle(due, [child('held', 11, 10), child('work', 12, 10)], T0 + 20)).toMatchObject({
      kind: 'again',
      due: { code: 'E043', why: 'parent ended', guard: 12 },
    })
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
    for (const data of bad) expect(OpenPasses.restore(data, RULES)).toBeUndefined()
    expect(OpenPasses.restore(good, RULES)?.position).toBe(1)
    expect(OpenPasses.restore({ ...good, passes: [{ ...good.passes[0], work: null }] }, RULES)).toBeUndefined()
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
    expect(() => OpenPasses.restore(broken, RULES)).toThrow('not the data')
  })
})

describe('endingError', () => {
  it.each<[string, Fact[], number, object]>([
    [
      'E010',
      [step('work', 10, { timeout_ms: 500 }), step('fence', 11)],
      T0 + 600,
      { code: 'E010', message: 'audit did not return within 500 ms', details: { attempt: 2, timeout_ms: 500, server_time: T0 + 600 } },
    ],
    [
      'E010 of an unknown timeout',
      [step('work', 10, { timeout_ms: undefined })],
      T0 + 40_000,
      { code: 'E010', message: 'audit did not return within its timeout' },
    ],
    ['E013', [step('held', 10, { expires_ms: 5 })], T0 + 20, { code: 'E013', details: { approval: 'expired', why: 'approval expired' } }],
    ['E013 with its parent', [step('work', 9, { timeout_ms: 99_000 }), child('held', 10, 9)], T0 + 100_000, { code: 'E010' }],
    ['E043', [step('work', 10), cancel(11)], T0 + 20, { code: 'E043', message: 'Cancelled' }],
    ['E043 of a child', [child('work', 10, 9)], T0 + 20, { code: 'E043', message: 'The pass that it belongs to has ended' }],
    [
      'E043 of an attempt',
      [step('work', 9), child('work', 10, 8)],
      T0 + 20,
      { code: 'E043', message: expect.stringContaining('earlier attempt') },
    ],
    ['E005', [asked(3), cancel(4)], T0 + 2 * WINDOW, { code: 'E005', details: { expired: true } }],
  ])('tells %s', (_, facts, now, expected) => {
    const [due] = fold(...facts).due(now)
    if (due?.kind !== 'end') throw new Error('nothing due')
    expect(endingError(due, now)).toMatchObject(expected)
  })

  it("tells a held child's end and one that nobody admitted", () => {
    const open = fold(step('work', 9, { timeout_ms: 99_000 }), child('held', 10, 9))
    const held = open.due(T0 + 100_000).find((due) => due.kind === 'end' && due.code === 'E013') as DueEnd
    expect(endingError(held, T0).details).toMatchObject({ approval: 'expired', why: "parent's deadline passed" })
    const never = fold(asked(3))
    never.learn(3, { key: KEY, timeout_ms: 10 })
    expect(endingError(end(never, T0 + 20), T0 + 20)).toMatchObject({
      code: 'E010',
      message: 'No dispatcher admitted it within its timeout',
    })
  })
})
