import { describe, expect, it } from 'vitest'
import { ID, NOW, streamOf } from '../../testing/stored-messages.js'
import { judge } from './judge.js'
import type { StoredMessage } from './types.js'

const KEY = `alice/audit/${ID}`

type Line = [subject: string, headers?: Record<string, string | number>, after_ms?: number]

function stream(lines: Line[]): StoredMessage[] {
  return streamOf(lines.map(([subject, headers = {}, after = 0]) => ({ subject, headers, after })))
}

const request: Line = ['request.audit.alice', { 'Passover-Id': ID, 'Passover-Timeout': 5_000 }]
const work: Line = [`work.alice.audit.${ID}.high`, { guard: 0, 'Passover-Timeout': 5_000 }]
const fence = (n: number, guard: number): Line => [`fence.alice.audit.${ID}.audit`, { guard, 'Passover-Attempt': n }]
const back = (n: number, guard: number, after = 0): Line => [
  `return.alice.audit.${ID}.audit`,
  { guard, 'Passover-Attempt': n, 'Passover-Status': 'completed' },
  after,
]
const ended = (guard: number, after = 0): Line => [
  `return.alice.audit.${ID}.passover`,
  { guard, 'Passover-Attempt': 0, 'Passover-Code': 'E010' },
  after,
]

describe('the judge', () => {
  it('finds nothing wrong with a pass of two attempts', () => {
    const found = judge(stream([request, work, fence(2, 2), back(2, 3)]), NOW + 10)
    expect(found.problems).toEqual([])
    expect(found.totals).toMatchObject({ messages: 4, requests: 1, passes: 1, ended: 1, open: 0, fences: 1, by_code: { ok: 1 } })
    expect(found.passes.get(KEY)).toMatchObject({ works: 1, attempts: 2, returns: 1, ended: { by: 'audit', attempt: 2 } })
  })

  it('leaves stale and dishonest steps out, and names them', () => {
    const unguarded: Line = [`return.alice.audit.${ID}.audit`, { 'Passover-Attempt': 1 }]
    const found = judge(stream([request, work, fence(2, 2), unguarded, back(2, 4), unguarded, fence(3, 6)]), NOW)
    expect(found.problems).toEqual([])
    expect(found.passes.get(KEY)?.returns).toBe(1)
    expect(found.ignored).toHaveLength(3)
    expect(found.ignored[0]).toMatch(/return of attempt 1 in attempt 2/)
  })

  const OWN = 'Nats-Expected-Last-Subject-Sequence'
  const lastResort = (sequence: number): Line => [`return.alice.audit.${ID}.passover`, { [OWN]: sequence, 'Passover-Code': 'E010' }]

  it("accepts a return by the system that is guarded on the system's own returns", () => {
    const found = judge(stream([request, work, fence(2, 2), lastResort(0)]), NOW)
    expect(found).toMatchObject({ problems: [], ignored: [] })
    const repeated = judge(stream([request, work, fence(2, 2), lastResort(0), lastResort(4)]), NOW)
    expect(repeated.problems).toEqual([])
    expect(repeated.ignored).toEqual([expect.stringMatching(/\(5\) does not count: the pass had its return/)])
  })

  it('accepts no other guard that leaves out a part of the journal', () => {
    const byWorker: Line = [`return.alice.audit.${ID}.audit`, { [OWN]: 0, 'Passover-Attempt': 1 }]
    const onAllReturns: Line = [`return.alice.audit.${ID}.passover`, { [OWN]: 0, [`${OWN}-Subject`]: `return.alice.audit.${ID}.*` }]
    for (const line of [byWorker, onAllReturns])
      expect(judge(stream([request, work, line]), NOW).ignored).toEqual([expect.stringMatching(/was published without a guard$/)])
  })

  it.each<[string, Line[], number, RegExp]>([
    ['a last resort that hides a return', [request, work, ended(2), lastResort(0)], 0, /names 0 as the step before, the server had 3/],
    ['an open pass past its deadline', [request, work], 6_001, /still open/],
    ['an end past its deadline', [request, work, ended(2, 7_000)], 8_000, /ended 2000 ms past/],
    ['a request without an answer', [request], 6_001, /has no answer/],
    ['a guard that the server cannot have accepted', [request, work, back(1, 1)], 0, /names 1 as the step before, the server had 2/],
    ['a journal nobody asked for', [work], 0, /without a request/],
    ['work without a deadline', [request, [work[0], { guard: 0 }]], 0, /does not say when/],
    [
      'a child that outlives its parent',
      [
        request,
        work,
        ['request.lint.audit', { 'Passover-Id': ID }],
        [`work.audit.lint.${ID}.high`, { guard: 0, 'Passover-Timeout': 9_000, 'Passover-Parent': KEY, 'Passover-Proof': 2 }],
        back(1, 2, 10),
      ],
      2_000,
      /outlives its parent/,
    ],
    [
      'a child of an earlier attempt',
      [
        request,
        work,
        ['request.lint.audit', { 'Passover-Id': ID }],
        [`work.audit.lint.${ID}.high`, { guard: 0, 'Passover-Timeout': 9_000, 'Passover-Parent': KEY, 'Passover-Proof': 2 }],
        fence(2, 2),
      ],
      2_000,
      /outlives its parent/,
    ],
  ])('sees %s', (_, lines, after, problem) => {
    const { problems } = judge(stream(lines), NOW + after)
    expect(problems.join('\n')).toMatch(problem)
    expect(problems).toHaveLength(1)
  })

  it('takes no first step after the id window but the answer "expired"', () => {
    const late = 3_600_001
    const refused: Line = [`return.alice.audit.${ID}.passover`, { guard: 0, 'Passover-Code': 'E005' }, late]
    expect(judge(stream([request, refused]), NOW + late).passes.get(KEY)?.returns).toBe(1)
    const opened: Line = [work[0], { guard: 0, 'Passover-Timeout': 5_000 }, late]
    expect(judge(stream([request, opened]), NOW + late).passes.get(KEY)?.works).toBe(0)
  })

  it('takes a refusal as bad-<sequence> for an answer to what could not be read', () => {
    const bad: Line = ['return.alice.audit.bad-000000001.passover', { guard: 0, 'Passover-Code': 'E005' }]
    expect(judge(stream([['request.audit.alice'], bad]), NOW + 60_000).problems).toEqual([])
    expect(judge(stream([['request.other.alice'], bad]), NOW + 60_000).problems).toHaveLength(2)
  })

  it('takes a refusal to nobody for an answer to who has no name', () => {
    const bad: Line = ['return.nobody.nobody.bad-000000001.passover', { guard: 0, 'Passover-Code': 'E005' }]
    expect(judge(stream([['request.*.alice'], bad]), NOW + 60_000).problems).toEqual([])
  })
})
