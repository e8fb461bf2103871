import { expect, it } from 'vitest'
import { custodyText } from './custody.js'

const hash = 'a'.repeat(64)
const run = (from: number, to: number, entries: number) => ({
  from,
  to,
  entries,
  first_time: 0,
  last_time: new Date(2026, 0, 31, 12, 0, from).getTime(),
  chain_before: hash,
  chain_after: hash,
})

it.each([
  [{ kind: 'hold', scope: { session: 's' }, reason: 'dispute\n17' }, 'holds session s: dispute 17'],
  [{ kind: 'hold', scope: { pass: { originator: 'a', subagent: 'b', id: 'c' } }, reason: 'r' }, 'holds pass c (a → b): r'],
  [{ kind: 'release', hold: 7 }, 'releases hold 7'],
  [{ kind: 'release', hold: 7, reason: 'settled' }, 'releases hold 7: settled'],
  [{ kind: 'erase', session: 's', reason: 'asked for' }, 'requests the erasure of session s: asked for'],
  [{ kind: 'erased', erase: 9, passes: [{ pass: hash, frames: [], parts: [] }] }, 'erases 1 pass (erasure 9)'],
  [{ kind: 'refused', erase: 9, why: 'hold 7 stands' }, 'refuses erasure 9: hold 7 stands'],
  [{ kind: 'done', erase: 9, passes: 1, entries: 3, parts: 0 }, 'erasure 9 is done: 1 pass, 3 entries, 0 large parts'],
  [{ kind: 'removals', begins: 0, untold: [] }, 'records each removal from now on'],
  [{ kind: 'removals', begins: 0, untold: [run(0, 2, 5)] }, 'records each removal from now on; removed earlier: segments 0 to 2'],
] as const)('%j', (body, said) => {
  expect(custodyText({ v: 1, ...body } as never)).toBe(said)
})

it('a removal says which segments, how much, how old, and by which version', () => {
  const body = { v: 1, kind: 'removed', segments: [run(0, 2, 12_287), run(4, 4, 1)], policy: 3, retention_days: 30 } as const
  expect(custodyText(body as never)).toMatch(
    /^removes segments 0 to 2, segment 4 from the archive \(12288 entries up to 2026-01-31 12:00(:04)?\): retention in policy version 3 is 30 days$/,
  )
  expect(custodyText({ ...body, policy: 0, retention_days: 1 } as never)).toMatch(/: the default retention is 1 day$/)
})
