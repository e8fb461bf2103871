import type { PassError, Step, WorkControl } from '@passover/schemas'
import { describe, expect, test } from 'vitest'
import type { JournalState } from '../../journal/state-machine.js'
import type { PassState, RecordedMessage } from '../state/recorded-message.js'
import { VersionHistory } from '../state/version-history.js'
import { dispatchFault, heldDiffers } from './approval.js'
import { judgeReturn } from './return.js'

const key = { originator: 'alice', subagent: 'audit', id: 'pass-000000001' }
const HELD_AT = 1_000_000
const EXPIRES_MS = 60_000
const DIGEST = 'd'.repeat(64)

function step(more: Partial<Step>): Step {
  return { type: 'step', kind: 'return', key, by: 'passover', sequence: 9, time: HELD_AT, ...more } as Step
}

const held = step({ kind: 'held', sequence: 5, expires_ms: EXPIRES_MS, digest: DIGEST })
const HELD: JournalState = { state: 'held', last: 5, valid: 5, held }
const OPEN: JournalState = {
  state: 'open',
  last: 6,
  valid: 6,
  attempt: 1,
  work: step({ kind: 'work', sequence: 6 }),
  deadline: HELD_AT + 30_000,
}

function pass(more: Partial<PassState>): PassState {
  const nothing = { steps: [], proofs: [], decisions: [], violated: [], events: [], applied_by: new Map() }
  return { key, text: 'alice/audit/1', journal: OPEN, cancelled: false, partial: false, erased: false, ...nothing, ...more }
}

const recorded = (body: unknown) => ({ body: () => body }) as unknown as RecordedMessage
const ended = (error: PassError, { told = {}, time = HELD_AT }: { told?: Partial<PassState>; time?: number } = {}) =>
  judgeReturn(recorded({ error }), step({ code: error.code, time }), pass(told)).fault

const decided = (person: string, verdict: string, digest = DIGEST) =>
  ({
    type: 'decision',
    key,
    item: 'dispatch',
    person,
    sequence: 7,
    time: HELD_AT + 1,
    body: { v: 1, verdict, digest },
  }) as unknown as PassState['decisions'][number]

describe('what the system says ended a pass', () => {
  const late = { code: 'E010', message: 'too late' } as const
  test.each([
    ['a time-out before its deadline', ended(late), 'as timed out 30000 ms before its deadline'],
    ['a time-out at its deadline', ended(late, { time: HELD_AT + 30_000 }), undefined],
    ['a cancel that nobody asked for', ended({ code: 'E043', message: 'x' }), 'nobody cancelled it'],
    ['a cancel', ended({ code: 'E043', message: 'x' }, { told: { cancelled: true } }), undefined],
    ['a cancel that may have been erased', ended({ code: 'E043', message: 'x' }, { told: { erased: true } }), undefined],
    ['the end of its parent', ended({ code: 'E043', message: 'x', details: { because: 'parent' } }), undefined],
    ['a crash', ended({ code: 'E011', message: 'x' }), undefined],
    ['something that is no error', judgeReturn(recorded({}), step({}), pass({})).fault, 'ends the pass with a malformed error'],
    [
      'another code in its header',
      judgeReturn(recorded({ error: late }), step({ code: 'E011' }), pass({})).fault,
      'has code E011 in its header, but E010 in its body',
    ],
    ['no code in its header', judgeReturn(recorded({ error: late }), step({}), pass({})).fault, 'has code none in its header'],
  ])('%s', (_, fault, what) => {
    if (what === undefined) expect(fault).toBeUndefined()
    else expect(fault).toContain(what)
  })

  const denial = { code: 'E013', message: 'denied', details: { approval: 'denied', person: 'carol' } } as const
  const expiry = { code: 'E013', message: 'expired', details: { approval: 'expired' } } as const
  test.each([
    ['a denial that nobody gave', ended(denial, { told: { journal: HELD } }), 'records a denial by carol, who did not deny it'],
    [
      'a denial by somebody else',
      ended(denial, { told: { journal: HELD, decisions: [decided('dora', 'deny')] } }),
      'records a denial by carol, who did not deny it',
    ],
    ['a denial', ended(denial, { told: { journal: HELD, decisions: [decided('carol', 'deny')] } }), undefined],
    ['an approval told as a denial', ended(denial, { told: { journal: HELD, decisions: [decided('carol', 'approve')] } }), 'who did not'],
    [
      'an expiry before its time',
      ended(expiry, { told: { journal: HELD } }),
      'as not approved in time 60000 ms before its approval expired',
    ],
    ['an expiry', ended(expiry, { told: { journal: HELD }, time: HELD_AT + EXPIRES_MS }), undefined],
    [
      'an expiry with its parent',
      ended(expiry, { told: { journal: HELD, held_control: { parent_deadline: HELD_AT } as WorkControl } }),
      undefined,
    ],
    ['a denial that may have been erased', ended(denial, { told: { journal: HELD, erased: true } }), undefined],
    ['a denial of what was no longer held', ended(denial), undefined],
  ])('%s', (_, fault, what) => {
    if (what === undefined) expect(fault).toBeUndefined()
    else expect(fault).toContain(what)
  })
})

test('a worker’s error reads as itself, or as what is wrong with it', () => {
  const by = { by: 'audit' }
  expect(judgeReturn(recorded({ error: { code: 'E011', message: 'crashed' } }), step(by), pass({}))).toEqual({ whole: true })
  expect(judgeReturn(recorded({ error: 'none' }), step(by), pass({})).remark).toContain('reads as E021')
})

describe('a step after a hold', () => {
  const versions = new VersionHistory(true)
  const faultOf = (...decisions: PassState['decisions']) => dispatchFault(pass({ decisions }), held, versions)
  test('wants the approval of somebody who may, about what was shown, and in time', () => {
    expect(faultOf(decided('carol', 'approve'))).toBeUndefined()
    expect(faultOf()).toBe('was dispatched although nobody approved it')
    expect(faultOf(decided('carol', 'deny'))).toBe('was dispatched although carol denied it')
    expect(faultOf(decided('alice', 'approve'))).toContain('alice at 7 is not valid: takes part in the pass')
    expect(faultOf(decided('carol', 'approve', 'e'.repeat(64)))).toContain('about something else')
    expect(faultOf({ ...decided('carol', 'approve'), item: 'return' })).toBe('was dispatched although nobody approved it')
    expect(dispatchFault(pass({ erased: true }), held, versions)).toBeUndefined()
    expect(faultOf({ ...decided('carol', 'approve'), time: HELD_AT + EXPIRES_MS })).toContain('too late')
    const endless = step({ kind: 'held', sequence: 5, digest: DIGEST })
    expect(dispatchFault(pass({ decisions: [decided('carol', 'approve')] }), endless, versions)).toBeUndefined()
  })

  test('runs under what was shown, with no more time', () => {
    const control = { timeout_ms: 10, chain_depth: 1 } as WorkControl
    expect(heldDiffers(pass({ control, held_control: control }))).toBeUndefined()
    expect(heldDiffers(pass({ control, held_control: { ...control, timeout_ms: 9 } }))).toContain(
      'has a timeout of 10 ms, but the approver was shown 9',
    )
    expect(heldDiffers(pass({ control, held_control: { ...control, chain_depth: 2 } }))).toContain('a different control frame')
    expect(heldDiffers(pass({ control }))).toBeUndefined()
  })
})
