import { journalFilter, makeId, type Step } from '@passover/schemas'
import { describe, expect, it } from 'vitest'
import { PendingReturns } from '../returns/pending-returns.js'
import { isBelievable } from './pending-return.js'

const key = { originator: 'alice', subagent: 'audit', id: 'some-given-id' }
const now = { epoch: 2, clustered: false, id_window_ms: 9_000 }
const pending = new PendingReturns().add({ key, digest: undefined, epoch: 2, skip_ack: false }, () => undefined)

function returned(rest: Partial<Step> = {}): Step {
  const guard = { sequence: 5, subject: journalFilter(key) }
  return { type: 'step', kind: 'return', key, by: 'audit', sequence: 6, time: 1_000, attempt: 1, guard, ...rest }
}

describe('isBelievable', () => {
  it('believes a guarded first attempt, and the system', () => {
    expect(isBelievable(pending, returned(), now)).toBe(true)
    expect(isBelievable(pending, returned({ by: 'passover', attempt: 0, guard: undefined }), now)).toBe(true)
  })

  // Found by simulation seed 960579247: the caller was told E013, and the pass had ended with E005.
  it('reads what the system stored after the id had expired', () => {
    const made = { ...pending, key: { ...key, id: makeId('abcdefg', 1_000_000, { bytes: (n) => new Uint8Array(n) }) } }
    expect(isBelievable(made, returned({ by: 'passover', time: 1_009_000 }), now)).toBe(true)
    expect(isBelievable(made, returned({ by: 'passover', time: 1_009_001 }), now)).toBe(false)
  })

  it.each([
    ['no guard', { guard: undefined }],
    ['a guard of 0', { guard: { sequence: 0, subject: journalFilter(key) } }],
    ['a guard on something else', { guard: { sequence: 5, subject: 'return.alice.audit.some-given-id.audit' } }],
    ['an attempt that is not the first', { attempt: 7 }],
    ['the second attempt', { attempt: 2 }],
    ['no attempt', { attempt: 0 }],
  ])('reads a worker`s return with %s', (_what, change) => {
    expect(isBelievable(pending, returned(change), now)).toBe(false)
  })

  it('reads all when hearing was interrupted, in a cluster, for a given id, and after a doubt', () => {
    expect(isBelievable(pending, returned(), { ...now, epoch: 3 })).toBe(false)
    expect(isBelievable(pending, returned(), { ...now, clustered: true })).toBe(false)
    expect(isBelievable({ ...pending, digest: 'd' }, returned(), now)).toBe(false)
    expect(isBelievable({ ...pending, epoch: undefined, skip_ack: false }, returned({ by: 'passover' }), now)).toBe(false)
  })
})
