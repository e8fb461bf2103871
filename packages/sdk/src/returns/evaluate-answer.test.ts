import type { AnsweredPass } from '@passover/schemas'
import { describe, expect, it } from 'vitest'
import type { AuditAnswer } from '../journal/poll.js'
import { evaluateAnswer } from './evaluate-answer.js'

const key = { originator: 'alice', subagent: 'audit', id: 'some-given-id' }
const pending = { key, digest: 'd', published: { sequence: 8, at: 2 } }
const rules = { id_window_ms: 100 }
const early = { now: 500, overdue: false, connected: true, rules }
const late = { now: 1_000, overdue: true, connected: true, rules }

function answered(pass: Partial<AnsweredPass>, storedReturn?: Extract<AuditAnswer, { kind: 'pass' }>['storedReturn']): AuditAnswer {
  return { kind: 'pass', pass: { key, status: 'waiting_for_return', digest: 'd', decisions: [], ...pass } as AnsweredPass, storedReturn }
}
const storedReturn = { by: 'audit', sequence: 9, time: 1, content_type: undefined, data: new Uint8Array() }

describe('judgeAnswer', () => {
  it('takes a return, but not another request`s', () => {
    expect(evaluateAnswer(pending, answered({}, storedReturn), early)).toEqual({ kind: 'return', storedReturn })
    expect(evaluateAnswer(pending, answered({ digest: 'other' }, storedReturn), early)).toMatchObject({
      kind: 'error',
      error: { code: 'E005' },
    })
    expect(evaluateAnswer({ ...pending, digest: undefined }, answered({ digest: 'other' }, storedReturn), early)).toMatchObject({
      kind: 'return',
    })
  })

  it('waits when the record is of an earlier use of the id, until it names the request', () => {
    const again = { ...pending, published: { sequence: 20, at: 102 } }
    expect(evaluateAnswer(again, answered({}, storedReturn), early)).toEqual({ kind: 'wait' })
    expect(evaluateAnswer(again, answered({ record: { sequences: { requests: [5] } } }, storedReturn), early)).toEqual({ kind: 'wait' })
    expect(evaluateAnswer(again, answered({ record: { sequences: { requests: [5, 20] } } }, storedReturn), early)).toMatchObject({
      kind: 'return',
    })
    const sooner = { ...pending, published: { sequence: 20, at: 101 } }
    expect(evaluateAnswer(sooner, answered({}, storedReturn), early)).toMatchObject({ kind: 'return' })
  })

  it('waits on for what is held, and for what ends later', () => {
    expect(evaluateAnswer(pending, answered({ status: 'held' }), late)).toEqual({ kind: 'held' })
    expect(evaluateAnswer(pending, answered({ deadline: 900 }), late)).toEqual({ kind: 'open', deadline: 900 })
    expect(evaluateAnswer(pending, { kind: 'unanswered' }, early)).toEqual({ kind: 'wait' })
  })

  it('says of a return that cannot be confirmed that it is stored, and not that nobody ended the pass', () => {
    const error = {
      code: 'E040',
      message: expect.stringMatching(/is stored \(sequence 9\).*do not request the work again/),
      context: { returned: 9 },
    }
    for (const asked of [{ kind: 'unanswered' }, answered({ deadline: -5_000 })] as const)
      expect(evaluateAnswer(pending, asked, { ...late, returned: 9 })).toMatchObject({ kind: 'error', error })
  })

  it('gives up what is over: E040, or E041 where nobody here asked for it', () => {
    expect(evaluateAnswer(pending, answered({ deadline: -5_000 }), late)).toMatchObject({ kind: 'error', error: { code: 'E040' } })
    expect(evaluateAnswer(pending, { kind: 'unanswered' }, late)).toMatchObject({
      error: { code: 'E040', message: 'no dispatcher ended the pass in time' },
    })
    expect(evaluateAnswer(pending, { kind: 'unanswered' }, { ...late, connected: false })).toMatchObject({
      error: { code: 'E040', message: 'the server cannot be reached' },
    })
    expect(evaluateAnswer(pending, { kind: 'unknown' }, late)).toMatchObject({ error: { code: 'E040' } })
    expect(evaluateAnswer({ ...pending, published: undefined }, { kind: 'unknown' }, late)).toMatchObject({ error: { code: 'E041' } })
  })
})
