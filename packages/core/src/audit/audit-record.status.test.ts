import { describe, expect, it } from 'vitest'
import { decision, event, record, refused, system, WORK } from '../../testing/histories.js'
import { KEY, output, step, T0 } from '../../testing/samples.js'

describe('the status of an audit record', () => {
  it('tells one that is only requested, held or open', () => {
    const nothing = { control: undefined, returned: undefined }
    const bare = record({ ...nothing, steps: [], request: undefined })
    expect(bare).toEqual({
      v: 1,
      key: KEY,
      status: 'requested',
      attempt: 0,
      requested_at: T0,
      sequences: { requests: [10], fences: [], last: 10 },
      decisions: [],
    })
    const held = record({ steps: [step('held', 11, { expires_ms: 500 })], returned: undefined })
    expect(held).toMatchObject({ status: 'held', attempt: 0, held_at: T0 + 11, deadline: T0 + 511, sequences: { held: 11, last: 11 } })
    const open = record({ steps: [step('held', 11, { expires_ms: 500 }), WORK, step('fence', 13)], returned: undefined })
    expect(open).toMatchObject({
      status: 'waiting_for_return',
      attempt: 2,
      held_at: T0 + 11,
      admitted_at: T0 + 12,
      deadline: T0 + 30_012,
      sequences: { held: 11, work: 12, fences: [13], last: 13 },
    })
    expect('entry' in open || 'metadata' in open || 'error' in open).toBe(false)
    expect(record({ steps: [step('work', 12, { timeout_ms: undefined })], returned: undefined }).deadline).toBe(T0 + 30_012)
    expect(record({ steps: [step('held', 11)], returned: undefined }).deadline).toBeUndefined()
  })

  it.each([
    ['E010', 'timed_out', 'timed_out'],
    ['E043', 'cancelled', 'cancelled'],
    ['E011', 'returned', 'failed'],
  ] as const)('tells an end by %s', (code, status, audited) => {
    const started = event('started', 13, { v: 1, attempt: 1, started_at: T0 + 50 })
    const told = record({ steps: [WORK, system(code)], returned: refused(code), events: [started] })
    expect(told).toMatchObject({ status, error: { code }, entry: { status: audited, started_at: T0 + 50, returned: false } })
    expect(told.entry?.duration_ms).toBeUndefined()
    expect(record({ steps: [WORK, system(code)], returned: refused(code), events: [event('started', 13)] }).entry?.started_at).toBe(T0 + 13)
  })

  it('waits for release until a person approves, and is processed once its originator has it', () => {
    const blocked = { v: 1 as const, output: output({ status: 'partial' }) }
    const approval = decision(16, { item: 'return', digest: 'r' })
    expect(record({ returned: blocked }).status).toBe('awaiting_release')
    expect(record({ returned: blocked, decisions: [approval], return_digest: 'r' }).status).toBe('returned')
    expect(record({ returned: blocked, decisions: [approval], return_digest: 'other' }).status).toBe('awaiting_release')
    expect(record({ returned: blocked, decisions: [{ ...approval, verdict: 'deny' }] }).status).toBe('awaiting_release')
    const denied = { returned: blocked, decisions: [{ ...approval, verdict: 'deny' as const, reason: 'no' }], return_digest: 'r' }
    expect(record(denied)).toMatchObject({ status: 'returned', error: { code: 'E013', message: 'bob did not release the output: no' } })
    expect(record({ returned: blocked }).awaits).toEqual({ item: 'return', since: T0 + 700, expires_at: T0 + 700 + 86_400_000 })
    expect(record(denied)).not.toHaveProperty('awaits')
    expect(record({ returned: blocked, acknowledged_at: T0 + 999 }).status).toBe('processed')
    expect(record({ returned: blocked, control: undefined }).status).toBe('returned')
  })

  it('ignores a denial of an output that is delivered without a release', () => {
    const returned = { v: 1 as const, output: output({ status: 'completed' }) }
    const denial = decision(16, { item: 'return', digest: 'r', verdict: 'deny' })
    const recorded = record({ returned, decisions: [denial], return_digest: 'r' })
    expect(recorded).toMatchObject({ status: 'returned', decisions: [{ verdict: 'deny' }] })
    expect(recorded).not.toHaveProperty('error')
  })

  it('that nobody released in time is expired, once the system said so after that time', () => {
    const returned = { v: 1 as const, output: output({ status: 'partial' }) }
    const over = T0 + 700 + 86_400_000
    const expired = (time: number, sender = 'passover') => ({ ...event('expired', 20, { v: 1, item: 'return' }), sender, time })
    const told = record({ returned, events: [expired(over)] })
    expect(told).toMatchObject({
      status: 'expired',
      error: { code: 'E013', message: expect.stringContaining('in time'), details: { approval: 'expired' } },
    })
    expect(told).not.toHaveProperty('awaits')
    expect(record({ returned, events: [expired(over)], acknowledged_at: over + 9 }).status).toBe('expired')
    expect(record({ returned, events: [expired(over - 1)] }).status).toBe('awaiting_release')
    expect(record({ returned, events: [expired(over, 'audit')] }).status).toBe('awaiting_release')
    const approval = decision(16, { item: 'return', digest: 'r' })
    expect(record({ returned, events: [expired(over)], decisions: [approval], return_digest: 'r' }).status).toBe('returned')
    expect(record({ events: [expired(over)] }).status).toBe('returned')
  })
})
