import { journalFilter, type Step } from '@passover/schemas'
import { describe, expect, it } from 'vitest'
import { viewJournal } from './journal-view.js'

const WINDOW = 3_600_000
const key = { originator: 'alice', subagent: 'audit', id: 'some-given-id' }
const caller = { id_window_ms: WINDOW, trust_fences: false }
const worker = { id_window_ms: WINDOW, trust_fences: true }

function step(kind: Step['kind'], sequence: number, rest: Partial<Step> & { after?: number } = {}): Step {
  const { after, ...fields } = rest
  const by = { held: 'passover', work: 'medium', fence: 'audit', return: 'audit' }[kind]
  const guard = after === undefined ? undefined : { sequence: after, subject: journalFilter(key) }
  return { type: 'step', kind, key, by, sequence, time: 1_000_000, attempt: 0, guard, ...fields }
}
const work = step('work', 5, { after: 0, digest: 'd' })

describe('viewJournal', () => {
  it('sees nothing, held, and open', () => {
    expect(viewJournal([], caller)).toEqual({ attempt: 0, last: 0, valid: 0, ending: { kind: 'none' } })
    expect(viewJournal([step('held', 3, { after: 0 })], caller)).toMatchObject({ attempt: 0, last: 3, valid: 3, ending: { kind: 'none' } })
    expect(viewJournal([work], caller)).toMatchObject({ attempt: 1, last: 5, valid: 5, ending: { kind: 'none' } })
  })

  it('takes a return with the step that its guard names', () => {
    const back = step('return', 9, { after: 5, attempt: 1 })
    expect(viewJournal([back, work], caller).ending).toEqual({ kind: 'return', step: back })
    const fence = step('fence', 7, { after: 5, attempt: 2 })
    const second = step('return', 9, { after: 7, attempt: 2 })
    expect(viewJournal([work, fence, second], caller).ending).toEqual({ kind: 'return', step: second })
  })

  it('does not judge a return without its work, without a guard, or of an attempt that is not its guard`s', () => {
    const unclear = { kind: 'unclear' }
    expect(viewJournal([step('return', 9, { after: 5, attempt: 1 })], caller).ending).toEqual(unclear)
    expect(viewJournal([work, step('return', 9, { attempt: 1 })], caller).ending).toEqual(unclear)
    expect(viewJournal([work, step('return', 9, { after: 5, attempt: 2 })], caller).ending).toEqual(unclear)
    expect(viewJournal([work, step('return', 9, { after: 8, attempt: 1 })], caller).ending).toEqual(unclear)
    const elsewhere = { sequence: 5, subject: 'return.alice.audit.some-given-id.audit' }
    expect(viewJournal([work, step('return', 9, { guard: elsewhere, attempt: 1 })], caller).ending).toEqual(unclear)
  })

  it('is not fooled by a later return and a fence that hide the first return', () => {
    // work 5, return 7 (hidden by 10), fence 9 after it, return 10 after that: only the audit can tell.
    const fence = step('fence', 9, { after: 7, attempt: 2 })
    const again = step('return', 10, { after: 9, attempt: 2 })
    expect(viewJournal([work, fence, again], caller).ending).toEqual({ kind: 'unclear' })
    const third = step('fence', 9, { after: 7, attempt: 3 })
    expect(viewJournal([work, third, step('return', 10, { after: 9, attempt: 3 })], caller).ending).toEqual({ kind: 'unclear' })
  })

  it('lets a worker believe its own agent`s third attempt, whose predecessor is hidden', () => {
    const third = step('fence', 9, { after: 7, attempt: 3, nonce: 'n' })
    expect(viewJournal([work, third], worker)).toMatchObject({ attempt: 3, valid: 9, last: 9, ending: { kind: 'none' } })
    expect(viewJournal([work, third, step('return', 10, { after: 9, attempt: 3 })], worker).ending).toMatchObject({ kind: 'return' })
  })

  it('takes the system`s return after held, work or fence, as first step, and by its last resort', () => {
    const by = 'passover'
    const held = step('held', 3, { after: 0 })
    const cases: Step[][] = [
      [held, step('return', 9, { by, after: 3, code: 'E013' })],
      [work, step('return', 9, { by, after: 5, code: 'E010' })],
      [work, step('fence', 7, { after: 5, attempt: 2 }), step('return', 9, { by, after: 7, code: 'E010' })],
      [step('return', 9, { by, after: 0, code: 'E003' })],
      [work, step('return', 9, { by, guard: { sequence: 0, subject: 'return.alice.audit.some-given-id.*' }, code: 'E010' })],
    ]
    for (const steps of cases) expect(viewJournal(steps, caller).ending).toEqual({ kind: 'return', step: steps.at(-1) })
    expect(viewJournal([work, step('return', 9, { by, code: 'E010' })], caller).ending).toEqual({ kind: 'unclear' })
  })

  it('lets a caller ask where the timekeeper`s last resort allows for an earlier return, and a worker stop', () => {
    const guard = { sequence: 0, subject: 'return.alice.audit.some-given-id.passover' }
    const last = step('return', 9, { by: 'passover', guard, code: 'E010' })
    expect(viewJournal([work, last], caller).ending).toEqual({ kind: 'unclear' })
    expect(viewJournal([work, last], worker).ending).toEqual({ kind: 'return', step: last })
  })

  it('ignores the return of an earlier use of the id, which a lagging replica still shows', () => {
    const earlier = [step('return', 2, { by: 'passover', after: 0, code: 'E003' }), step('return', 3, { after: 1, attempt: 1 })]
    for (const begun of [work, step('held', 5, { by: 'passover', after: 0 })]) {
      expect(viewJournal([...earlier, begun], worker).ending).toEqual({ kind: 'none' })
      expect(viewJournal([...earlier, begun], caller).ending).toEqual({ kind: 'none' })
    }
    expect(viewJournal(earlier, worker).ending).toMatchObject({ kind: 'return' })
  })

  it('leaves out a first step that came too late, unless it says expired itself (rule 5)', () => {
    const late = { after: 0, requested_at: 1_000_000, time: 1_000_000 + WINDOW + 1 }
    expect(viewJournal([step('work', 5, late)], caller)).toMatchObject({ attempt: 0, ending: { kind: 'none' } })
    const refusal = { ...late, by: 'passover' }
    expect(viewJournal([step('return', 5, { ...refusal, code: 'E003' })], caller).ending).toEqual({ kind: 'none' })
    expect(viewJournal([step('return', 5, { ...refusal, code: 'E005' })], caller).ending).toMatchObject({ kind: 'return' })
  })

  it('takes the refusal that follows a first step which came too late', () => {
    const late = { requested_at: 1_000_000, time: 1_000_000 + WINDOW + 1, by: 'passover', after: 5, first: true as const }
    const work = step('work', 5, { requested_at: 1_000_000, time: 1_000_000 + WINDOW + 1, after: 0 })
    const refusal = step('return', 6, { ...late, code: 'E005' })
    expect(viewJournal([work, refusal], caller).ending).toEqual({ kind: 'return', step: refusal })
    expect(viewJournal([work, step('return', 6, { ...late, code: 'E003' })], caller).ending).toEqual({ kind: 'none' })
  })
})
