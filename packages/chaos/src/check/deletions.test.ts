import { encode } from '@msgpack/msgpack'
import { describe, expect, it } from 'vitest'
import { ID, type Line, NOW, streamOf } from '../../testing/stored-messages.js'
import { checkDeletions, type Removal } from './deletions.js'
import { judge } from './judge.js'

const WINDOW_MS = 20_000
const asked: Line = { subject: 'request.audit.alice', headers: { 'Passover-Id': ID } }
const work: Line = { subject: `work.alice.audit.${ID}.high`, headers: { guard: 0, 'Passover-Timeout': 5_000 } }
const returned: Line = { subject: `return.alice.audit.${ID}.audit`, headers: { guard: 2, 'Passover-Attempt': 1 }, after: 1_000 }
const whole = [asked, work, returned]

/** What is wrong with what was seen to be gone, ms after NOW. */
function wrong(lines: readonly Line[], removals: readonly { at: number; sequences: number[] }[], durable: string[] = []): string[] {
  const records = streamOf(lines)
  const lastAt = (ms: number) => records.filter(({ time }) => time <= NOW + ms).length
  const seen = removals.map(({ at, sequences }): Removal => ({ last: lastAt(at - 1_000), at: NOW + at, sequences }))
  const judgement = judge(records, NOW)
  const { violations } = checkDeletions(records, { removals: seen, judgement }, { id_window_ms: WINDOW_MS, durable })
  return violations.map(({ promise, what }) => `${promise} ${what}`)
}

describe('what leaves the stream', () => {
  it('is closed and older than two windows, and its return goes last', () => {
    expect(wrong(whole, [{ at: 41_000, sequences: [1, 2, 3] }])).toEqual([])
    expect(
      wrong(whole, [
        { at: 41_000, sequences: [1, 2] },
        { at: 42_000, sequences: [3] },
      ]),
    ).toEqual([])
    expect(
      wrong([...whole, { subject: 'acknowledged.alice', data: encode({ v: 1, returns: [3] }) }], [{ at: 500, sequences: [4] }]),
    ).toEqual([])
  })

  it.each<[string, Line[], { at: number; sequences: number[] }[], RegExp]>([
    ['open', [asked, work], [{ at: 90_000, sequences: [1] }], /^P4 .* deleted while it was open$/],
    ['not answered', [asked], [{ at: 90_000, sequences: [1] }], /deleted while it was open$/],
    [
      'ended only later',
      whole.map((line, i) => (i === 2 ? { ...line, after: 80_000 } : line)),
      [{ at: 60_000, sequences: [1] }],
      /while it was open$/,
    ],
    ['just closed', whole, [{ at: 2_500, sequences: [1, 2, 3] }], /deleted 1500 ms after its youngest message$/],
    ['young', whole, [{ at: 40_999, sequences: [1, 2, 3] }], /deleted 39999 ms after its youngest message$/],
    [
      'asked for again',
      [...whole, { ...asked, after: 20_000 }],
      [{ at: 55_000, sequences: [1] }],
      /deleted 35000 ms after its youngest message$/,
    ],
    ['cut off at its return', whole, [{ at: 60_000, sequences: [3] }], /its return was deleted, and 1, 2 still stood there$/],
  ])('is none that is %s', (_, lines, removals, what) => {
    const found = wrong(lines, removals)
    expect(found).toHaveLength(1)
    expect(found[0]).toMatch(what)
  })

  it('is a pass whose subagent stored a late result after its end, before that result is deleted too', () => {
    const late: Line = { subject: `event.alice.audit.${ID}.late.audit`, after: 30_000 }
    expect(wrong([...whole, late], [{ at: 45_000, sequences: [1, 2, 3] }])).toEqual([])
    const refused: Line = { subject: `return.alice.audit.${ID}.passover`, after: 30_000 }
    expect(wrong([...whole, refused], [{ at: 45_000, sequences: [1, 2, 3] }])).toEqual([
      expect.stringMatching(/deleted 15000 ms after its youngest message$/),
      expect.stringMatching(/its return was deleted, and 4 still stood there$/),
    ])
  })

  it('is what is asked for again, but for eight windows after its end only', () => {
    const again: Line = { ...asked, after: 150_000 }
    expect(wrong([...whole, again], [{ at: 155_000, sequences: [1, 2, 3] }])).toHaveLength(2)
    expect(wrong([...whole, again], [{ at: 165_000, sequences: [1, 2, 3] }])).toEqual([])
  })

  it('is a request that was refused under a name of its own with its answer, not with the pass whose id it used', () => {
    const refusal: Line = {
      subject: 'return.alice.audit.bad-000000002.passover',
      headers: { guard: 0, 'Passover-Request': 2 },
      after: 30_000,
    }
    const work: Line = { subject: `work.alice.audit.${ID}.high`, headers: { guard: 0, 'Passover-Timeout': 5_000 } }
    const returned: Line = { subject: `return.alice.audit.${ID}.audit`, headers: { guard: 3, 'Passover-Attempt': 1 }, after: 1_000 }
    const lines = [asked, asked, work, returned, refusal]
    const apart = { at: 71_000, sequences: [2, 5] }
    expect(wrong(lines, [{ at: 45_000, sequences: [1, 3, 4] }, apart])).toEqual([])
    expect(
      wrong(lines, [
        { at: 45_000, sequences: [1, 2, 3, 4] },
        { at: 71_000, sequences: [5] },
      ]),
    ).toHaveLength(1)
  })

  it('is nothing that an agent which asks for delivery was not given', () => {
    const gone = [{ at: 60_000, sequences: [1, 2, 3] }]
    const taken = (after: number): Line => ({ subject: 'acknowledged.alice', data: encode({ v: 1, returns: [1, 2] }), after })
    expect(wrong(whole, gone, ['bob'])).toEqual([])
    expect(wrong(whole, gone, ['alice'])).toEqual([expect.stringMatching(/deleted before alice had taken its return$/)])
    expect(wrong([...whole, taken(70_000)], gone, ['alice'])).toHaveLength(1)
    // Differences: 1, and two more.
    expect(wrong([...whole, taken(2_000)], gone, ['alice'])).toEqual([])
  })
})
