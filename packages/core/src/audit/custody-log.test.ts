import type { ErasedPass } from '@passover/schemas'
import { describe, expect, it } from 'vitest'
import { CustodyLog, entriesOf, SegmentRanges } from './custody-log.js'

const KEY = { originator: 'alice', subagent: 'audit', id: 'given-id-1' }
const PASS: ErasedPass = { pass: 'a'.repeat(64), frames: [[3, 30, new Uint8Array(32)]], parts: [] }

/** A fold, and what it is told next. */
function folding() {
  const custody = new CustodyLog()
  let sequence = 100
  const say = (sender: string, body: unknown) => custody.take({ sequence: ++sequence, time: sequence * 10, sender, body })
  return { custody, say: (sender: string, body: Record<string, unknown>) => say(sender, { v: 1, ...body }), raw: say }
}

describe('custody', () => {
  it('a session or a pass is held until it is released', () => {
    const { custody, say } = folding()
    expect(custody.holdsOn(KEY, 's')).toEqual([])
    expect(custody.holdsSessions).toBe(false)
    say('maria', { kind: 'hold', scope: { pass: KEY }, reason: 'r' })
    expect(custody.holdsSessions).toBe(false)
    say('maria', { kind: 'hold', scope: { session: 's' }, reason: 'dispute' })
    expect(custody.holdsSessions).toBe(true)
    expect(custody.holds).toEqual([
      { hold: 101, scope: { pass: KEY }, reason: 'r', by: 'maria', time: 1010 },
      { hold: 102, scope: { session: 's' }, reason: 'dispute', by: 'maria', time: 1020 },
    ])
    expect(custody.holdsOn(KEY, 's').map(({ hold }) => hold)).toEqual([101, 102])
    expect(custody.holdsOn({ ...KEY, id: 'other-id-1' }, undefined)).toEqual([])
    expect(say('carol', { kind: 'release', hold: 101 })).toBeDefined()
    expect(say('carol', { kind: 'release', hold: 101 })).toBeUndefined()
    expect(custody.holdsOn(KEY, 'other')).toEqual([])
    expect(custody.position).toBe(104)
  })

  it('knows what is told to leave the archive, as the audit alone says', () => {
    const { custody, say } = folding()
    const hash = 'c'.repeat(64)
    const run = (from: number, to: number) => ({ from, to, entries: 1, first_time: 1, last_time: 2, chain_before: hash, chain_after: hash })
    const removed = (from: number, to: number) => ({ kind: 'removed', segments: [run(from, to)], policy: 0, retention_days: 30 })
    const told = () => [0, 1, 2, 3, 4, 5].filter((k) => custody.toldOf(k))
    expect(say('maria', removed(0, 5))).toBeUndefined()
    expect(say('maria', { kind: 'removals', begins: 0, untold: [] })).toBeUndefined()
    expect([told(), custody.removals_since]).toEqual([[], undefined])
    expect(say('passover', { kind: 'removals', begins: 0, untold: [run(0, 1)] })).toBeDefined()
    expect(say('passover', { kind: 'removals', begins: 0, untold: [run(5, 5)] })).toBeUndefined()
    expect(say('passover', removed(3, 4))).toMatchObject({ kind: 'removed' })
    expect([told(), custody.removals_since]).toEqual([[0, 1, 3, 4], 103])
  })

  it('an erasure is pending until the audit says what became of it', () => {
    const { custody, say } = folding()
    say('maria', { kind: 'erase', session: 's', reason: 'asked for' })
    say('maria', { kind: 'erase', session: 't', reason: 'asked for' })
    expect(custody.pending?.erase).toBe(101)
    expect(say('passover', { kind: 'erased', erase: 101, passes: [PASS] })).toMatchObject({ kind: 'erased' })
    expect(say('passover', { kind: 'done', erase: 101, passes: 1, entries: 1, parts: 2 })).toBeDefined()
    expect(custody.erasures[0]).toMatchObject({ state: 'done', passes: 1, entries: 1, parts: 2, by: 'maria', session: 's' })
    expect(say('passover', { kind: 'refused', erase: 102, why: 'held' })).toBeDefined()
    expect(custody.erasures[1]).toMatchObject({ state: 'refused', why: 'held' })
    expect(custody.pending).toBeUndefined()
    expect(custody.position).toBe(105)
    expect(entriesOf([PASS])).toEqual([{ sequence: 3, time: 30, digest: new Uint8Array(32) }])
  })

  it('what is held stays, and what is to be erased, until that is done or refused', () => {
    const { custody, say } = folding()
    expect([custody.needsSessions, custody.stays(KEY, 's')]).toEqual([false, false])
    say('maria', { kind: 'hold', scope: { pass: KEY }, reason: 'r' })
    expect([custody.needsSessions, custody.stays(KEY, undefined)]).toEqual([false, true])
    say('maria', { kind: 'release', hold: 101 })
    say('maria', { kind: 'hold', scope: { session: 's' }, reason: 'r' })
    expect([custody.needsSessions, custody.stays(KEY, 's'), custody.stays(KEY, undefined)]).toEqual([true, true, false])
    say('maria', { kind: 'release', hold: 103 })
    say('maria', { kind: 'erase', session: 's', reason: 'r' })
    expect([custody.needsSessions, custody.stays(KEY, 's')]).toEqual([true, true])
    expect([custody.stays(KEY, undefined), custody.stays(KEY, 'other')]).toEqual([false, false])
    say('passover', { kind: 'refused', erase: 105, why: 'open' })
    expect([custody.needsSessions, custody.stays(KEY, 's')]).toEqual([false, false])
  })

  it('who knows the id of what was erased finds the erasure', () => {
    const { custody, say } = folding()
    say('maria', { kind: 'erase', session: 's', reason: 'asked for' })
    expect(custody.erasureOf(PASS.pass)).toBeUndefined()
    say('passover', { kind: 'erased', erase: 101, passes: [PASS] })
    expect(custody.erasureOf(PASS.pass)).toMatchObject({ erase: 101, reason: 'asked for' })
    expect(custody.erasureOf('b'.repeat(64))).toBeUndefined()
  })

  it('what does not count changes nothing', () => {
    const { custody, say, raw } = folding()
    expect(raw('maria', undefined)).toBeUndefined()
    expect(say('maria', { kind: 'hold', scope: {}, reason: 'r' })).toBeUndefined()
    // A person does not say what was done, nor the audit what is held; and nothing was asked for.
    expect(say('maria', { kind: 'done', erase: 1, passes: 0, entries: 0, parts: 0 })).toBeUndefined()
    expect(say('passover', { kind: 'hold', scope: { session: 's' }, reason: 'r' })).toBeUndefined()
    expect(say('passover', { kind: 'erased', erase: 1, passes: [PASS] })).toBeUndefined()
    say('maria', { kind: 'erase', session: 's', reason: 'r' })
    expect(say('passover', { kind: 'erase', session: 's', reason: 'r' })).toBeUndefined()
    say('passover', { kind: 'refused', erase: 106, why: 'open' })
    expect(say('passover', { kind: 'done', erase: 106, passes: 0, entries: 0, parts: 0 })).toBeUndefined()
    expect(custody.holds).toEqual([])
    expect(custody.erasures).toMatchObject([{ state: 'refused' }])
  })
})

describe('told runs', () => {
  const run = (from: number, to: number, archive = 'a') => ({
    from,
    to,
    chain_before: `${archive}${from}`,
    chain_after: `${archive}${to + 1}`,
  })

  it('takes what goes on where the last ended for one run; the last that tells of a segment counts', () => {
    const told = new SegmentRanges()
    expect(told.of(0)).toBeUndefined()
    for (const one of [run(2, 3), run(4, 4), run(7, 7)]) told.add(one)
    expect([1, 2, 4, 5, 7, 8].map((k) => told.of(k))).toEqual([undefined, run(2, 4), run(2, 4), undefined, run(7, 7), undefined])
    // The archive was lost, and sealed anew.
    told.add(run(8, 8, 'b'))
    told.add(run(3, 7, 'b'))
    expect([2, 3, 7, 8].map((k) => told.of(k))).toEqual([run(2, 4), run(3, 7, 'b'), run(3, 7, 'b'), run(8, 8, 'b')])
  })
})
