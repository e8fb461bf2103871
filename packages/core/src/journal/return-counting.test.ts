import { journalFilter, type Step, SYSTEM } from '@passover/schemas'
import { describe, expect, it } from 'vitest'
import { judgeReturnByWork } from './return-counting.js'

const KEY = { originator: 'alice', subagent: 'scout', id: 'given-id-1' }
const work = { type: 'step', kind: 'work', key: KEY, by: 'medium', sequence: 4, time: 1, attempt: 1 } as Step
const guard = { subject: journalFilter(KEY), sequence: 4 }
const returned = (said: Partial<Step> = {}): Step =>
  ({ type: 'step', kind: 'return', key: KEY, by: 'scout', sequence: 7, time: 2, attempt: 1, guard, ...said }) as Step

describe('countedByWork', () => {
  it.each<[string, Step, Step[], string]>([
    ['follows the work', returned(), [work], 'counts'],
    ['is the system’s', returned({ by: SYSTEM, attempt: 0 }), [], 'counts'],
    ['has no work', returned(), [], 'nothing'],
    ['has no attempt', returned({ attempt: 0 }), [work], 'nothing'],
    ['is of another agent', returned({ by: 'mallory' }), [work], 'nothing'],
    ['was published by the server', returned({ untrusted: 'it has the header Nats-Stream' }), [work], 'nothing'],
    ['has no guard', returned({ guard: undefined }), [work], 'unclear'],
    ['follows another step', returned({ guard: { ...guard, sequence: 5 } }), [work], 'unclear'],
    [
      'is guarded on its own subject',
      returned({ guard: { subject: 'return.alice.scout.given-id-1.scout', sequence: 4 } }),
      [work],
      'unclear',
    ],
    ['is of a later attempt', returned({ attempt: 2 }), [work], 'unclear'],
    ['follows a work that is not believed', returned(), [{ ...work, untrusted: 'x' }], 'unclear'],
  ])('of a return that %s', (_, step, works, counted) => {
    expect(judgeReturnByWork(step, works)).toBe(counted)
  })
})
