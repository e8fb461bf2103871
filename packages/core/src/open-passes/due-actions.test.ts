import type { Fact, Step } from '@passover/schemas'
import { describe, expect, it } from 'vitest'
import { asked, CHILD, cancel, child, end, ends, fold } from '../../testing/open-facts.js'
import { KEY, step, T0, WINDOW } from '../../testing/samples.js'

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
