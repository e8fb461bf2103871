import { expect, it } from 'vitest'
import { custodyAnswer, custodyBody } from './custody.js'

const pass = { originator: 'alice', subagent: 'audit', id: 'given-id-1' }
const stone = { pass: 'a'.repeat(64), frames: [[3, 30, new Uint8Array(32)]], parts: [['alice', 'b'.repeat(64)]] }
const hash = 'c'.repeat(64)
const segmentRun = { from: 0, to: 3, entries: 16_383, first_time: 1, last_time: 2, chain_before: hash, chain_after: hash }

it.each([
  { v: 1, kind: 'hold', scope: { session: 's' }, reason: 'dispute' },
  { v: 1, kind: 'hold', scope: { pass }, reason: 'dispute' },
  { v: 1, kind: 'release', hold: 17 },
  { v: 1, kind: 'erase', session: 's', reason: 'asked for' },
  { v: 1, kind: 'erased', erase: 17, passes: [stone] },
  { v: 1, kind: 'refused', erase: 17, why: 'held' },
  { v: 1, kind: 'done', erase: 17, passes: 1, entries: 3, parts: 0 },
  { v: 1, kind: 'removals', begins: 0, untold: [segmentRun] },
  { v: 1, kind: 'removed', segments: [segmentRun], policy: 0, retention_days: 30 },
])('$kind is what may be said about custody', (body) => {
  expect(custodyBody.parse(body)).toEqual(body)
})

it.each([
  ['a hold without a reason', { v: 1, kind: 'hold', scope: { session: 's' } }],
  ['a hold of nothing', { v: 1, kind: 'hold', scope: {}, reason: 'r' }],
  ['a hold of a session and a pass', { v: 1, kind: 'hold', scope: { session: 's', pass }, reason: 'r' }],
  ['an erasure without a reason', { v: 1, kind: 'erase', session: 's' }],
  ['a digest that is none', { v: 1, kind: 'erased', erase: 17, passes: [{ ...stone, frames: [[3, 30, new Uint8Array(31)]] }] }],
  ['an id in the place of its hash', { v: 1, kind: 'erased', erase: 17, passes: [{ ...stone, pass: 'given-id-1' }] }],
  ['a removal of nothing', { v: 1, kind: 'removed', segments: [], policy: 0, retention_days: 30 }],
])('%s is not', (_, body) => {
  expect(custodyBody.safeParse(body).success).toBe(false)
})

it('an answer says what is held and what was erased', () => {
  const preview = { passes: 1, open: [], held: [17], segments: 1, entries: 3, parts: 0 }
  const hold = { hold: 17, scope: { session: 's' }, reason: 'r', by: 'maria', time: 1 }
  const erasure = { erase: 18, session: 's', reason: 'r', by: 'maria', time: 1, state: 'pending', passes: 0, entries: 0, parts: 0 }
  expect(custodyAnswer.parse({ ok: true, holds: [hold], erasures: [erasure], preview })).toMatchObject({ ok: true, preview })
})
