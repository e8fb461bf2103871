import type { Step, StepKind } from '@passover/schemas'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { KEY, RULES, step, T0, timedId, WINDOW } from '../../testing/samples.js'
import { EMPTY_JOURNAL, firstStepIsLate, foldJournal, type JournalState, next } from './state-machine.js'

function fold(...steps: Step[]): JournalState {
  return foldJournal(steps, RULES).journal
}

/** Any step, mostly by whom it should be and more seldom a return; put in order afterwards. */
const anyStep = fc.record({
  kind: fc.constantFrom<StepKind>('held', 'work', 'work', 'fence', 'fence', 'fence', 'return'),
  by: fc.option(fc.constantFrom('passover', 'audit', 'alice', 'high', 'urgent'), { nil: undefined, freq: 2 }),
  attempt: fc.integer({ min: 0, max: 4 }),
  late: fc.nat(9).map((n) => n === 0),
  code: fc.constantFrom('E005', 'E010', undefined),
})
const journals = fc
  .array(anyStep, { maxLength: 30 })
  .map((steps) =>
    steps.map(({ kind, by, attempt, late, code }, i) =>
      step(kind, i + 1, { ...(by ? { by } : {}), attempt, code, time: T0 + i + (late ? WINDOW + 1 : 0) }),
    ),
  )

describe('next', () => {
  it('folds held, work, fence, return into one life', () => {
    expect(fold()).toEqual(EMPTY_JOURNAL)
    const held = step('held', 3)
    expect(fold(held)).toEqual({ state: 'held', last: 3, valid: 3, held })
    const work = step('work', 5)
    expect(fold(held, work)).toEqual({ state: 'open', last: 5, valid: 5, attempt: 1, held, work, deadline: work.time + 30_000 })
    const fence = step('fence', 8)
    expect(fold(held, work, fence)).toMatchObject({ state: 'open', last: 8, valid: 8, attempt: 2, work })
    const back = step('return', 9, { attempt: 2 })
    expect(fold(held, work, fence, back)).toEqual({ state: 'done', last: 9, valid: 9, attempt: 2, held, work, return: back })
  })

  it('has no field "held" if the pass was never held', () => {
    const work = step('work', 5)
    const deadline = work.time + 30_000
    expect(fold(work)).toStrictEqual({ state: 'open', last: 5, valid: 5, attempt: 1, work, deadline })
    const back = step('return', 6)
    expect(fold(work, back)).toStrictEqual({ state: 'done', last: 6, valid: 6, attempt: 1, work, return: back })
    const refused = step('return', 3, { by: 'passover', code: 'E004' })
    expect(fold(refused)).toStrictEqual({ state: 'done', last: 3, valid: 3, attempt: 0, return: refused })
    const held = step('held', 2)
    expect(fold(held, refused)).toStrictEqual({ state: 'done', last: 3, valid: 3, attempt: 0, held, return: refused })
  })

  it.each<[string, Step[], string]>([
    ['a step that the server stored for a client', [step('work', 1, { untrusted: 'it was bounced' })], 'it was bounced'],
    ['a second return', [step('work', 1), step('return', 2), step('return', 3)], 'a second return'],
    ['a return before work', [step('return', 1)], 'a return before work'],
    ['a fence before work', [step('fence', 1)], 'a fence before work'],
    ['a fence after the return', [step('work', 1), step('return', 2), step('fence', 3)], 'a fence after the return'],
    ['an attempt out of order', [step('work', 1), step('fence', 2, { attempt: 3 })], 'a fence of attempt 3 in attempt 1'],
    ['a return of a lost attempt', [step('work', 1), step('fence', 2), step('return', 3)], 'a return of attempt 1 in attempt 2'],
    ['a return of a later attempt', [step('work', 1), step('return', 2, { attempt: 2 })], 'a return of attempt 2 in attempt 1'],
    ['work while work is open', [step('work', 1), step('work', 2)], 'a second work'],
    ['held while open', [step('work', 1), step('held', 2)], 'held when open'],
    ['held twice', [step('held', 1), step('held', 2)], 'held when held'],
    ['a held step of a worker', [step('held', 1, { by: 'audit' })], 'held by audit'],
    ['a return of a stranger', [step('work', 1), step('return', 2, { by: 'mallory' })], 'a return by mallory'],
    ['a fence of a stranger', [step('work', 1), step('fence', 2, { by: 'mallory' })], 'a fence by mallory'],
    ['a worker that says it is attempt 0', [step('work', 1), step('return', 2, { attempt: 0 })], 'a return of attempt 0 in attempt 1'],
    ['an unknown priority', [step('work', 1, { by: 'urgent' })], 'work in an unknown slot urgent'],
    ['work of an expired id', [step('work', 1, { time: T0 + WINDOW + 1 })], 'a first step after its id expired'],
  ])('ignores %s, but guards on it', (_, steps, why) => {
    const { journal, ignored } = foldJournal(steps, RULES)
    expect(ignored).toEqual([{ step: steps.at(-1), why }])
    const before = fold(...steps.slice(0, -1))
    expect(journal).toEqual({ ...before, last: steps.at(-1)?.sequence })
  })

  it('takes the system return in every state', () => {
    const end = step('return', 9, { by: 'passover', attempt: 0, code: 'E010' })
    expect(fold(end)).toEqual({ state: 'done', last: 9, valid: 9, attempt: 0, return: end })
    expect(fold(step('held', 1), end)).toMatchObject({ state: 'done', attempt: 0, return: end })
    expect(fold(step('work', 1), step('fence', 2), end)).toMatchObject({ state: 'done', attempt: 2, return: end })
  })

  it('takes only an expiry as a late first step (rule 5)', () => {
    const late = { time: T0 + WINDOW + 1, by: 'passover' }
    expect(fold(step('return', 1, { ...late, code: 'E005' })).state).toBe('done')
    expect(fold(step('return', 1, { ...late, code: 'E010' })).state).toBe('none')
    expect(fold(step('return', 1, { ...late, by: 'audit', code: 'E005' })).state).toBe('none')
    expect(fold(step('held', 1, late)).state).toBe('none')
    expect(fold(step('held', 1), step('work', 2, { time: T0 + 2 * WINDOW })).state).toBe('open')
  })

  it('takes the default timeout where work names none', () => {
    expect(fold(step('work', 1, { timeout_ms: undefined }))).toMatchObject({ deadline: T0 + 1 + 30_000 })
  })

  it('never lets more than one return count, attempts go up by one, closed stay closed', () => {
    fc.assert(
      fc.property(journals, (steps) => {
        let journal: JournalState = EMPTY_JOURNAL
        let returns = 0
        for (const one of steps) {
          const after = next(journal, one, RULES)
          expect(after.journal.last).toBe(one.sequence)
          if (after.ignored !== undefined) {
            expect(after.journal).toEqual({ ...journal, last: one.sequence })
          } else {
            expect(after.journal.valid).toBe(one.sequence)
            expect(journal.state).not.toBe('done')
            if (one.kind === 'return') returns += 1
            if (one.kind === 'fence' && 'attempt' in after.journal && journal.state === 'open')
              expect(after.journal.attempt).toBe(journal.attempt + 1)
          }
          if (journal.state === 'done')
            expect(after.journal).toMatchObject({ state: 'done', return: journal.return, attempt: journal.attempt })
          journal = after.journal
        }
        expect(returns).toBe(journal.state === 'done' ? 1 : 0)
      }),
      { numRuns: 500 },
    )
  }, 60_000)

  it('is not changed by steps that were ignored', () => {
    fc.assert(
      fc.property(journals, (steps) => {
        const { journal, ignored } = foldJournal(steps, RULES)
        const counted = steps.filter((one) => !ignored.some(({ step: lost }) => lost === one))
        const clean = foldJournal(counted, RULES)
        expect(clean.ignored).toEqual([])
        expect({ ...clean.journal, last: 0 }).toEqual({ ...journal, last: 0 })
      }),
    )
  })
})

describe('firstStepIsLate', () => {
  const untimed = { ...KEY, id: 'f81d4fae-7dec-41d0-a765-00a0c91e6bf6' }

  it('counts from the time in the id', () => {
    expect(firstStepIsLate({ key: KEY, time: T0 + WINDOW, requested_at: undefined }, RULES)).toBe(false)
    expect(firstStepIsLate({ key: KEY, time: T0 + WINDOW + 1, requested_at: T0 + WINDOW }, RULES)).toBe(true)
    expect(firstStepIsLate({ key: { ...KEY, id: timedId(T0 + 5) }, time: T0 + WINDOW + 5, requested_at: undefined }, RULES)).toBe(false)
  })

  it('counts from the request for an id without time', () => {
    expect(firstStepIsLate({ key: untimed, time: T0 + WINDOW + 1, requested_at: T0 }, RULES)).toBe(true)
    expect(firstStepIsLate({ key: untimed, time: T0 + WINDOW + 1, requested_at: T0 + 1 }, RULES)).toBe(false)
    expect(firstStepIsLate({ key: untimed, time: T0 + WINDOW + 1, requested_at: undefined }, RULES)).toBe(false)
  })
})
