import { keyText, type PassKey, type Step } from '@passover/schemas'
import fc from 'fast-check'
import { describe, expect, it, vi } from 'vitest'
import { step, T0, timedId } from '../../testing/samples.js'
import { OpenPasses } from '../open-passes/open-passes.js'
import { joinSnapshotChunks } from '../open-passes/snapshot-chunks.js'
import { basePolicy } from '../policy/base-policy.js'
import { limitFault } from './check-limits.js'
import { LimitCounters } from './limit-counters.js'

const HOUR_MS = 3_600_000
const RULES = { id_window_ms: HOUR_MS, look_after_ms: 5_000 }
const id = (n: number, time = T0) => timedId(time, `p${n}`.padEnd(14, '0'))
const key = (n: number, originator = 'alice', subagent = 'audit', time = T0): PassKey => ({ originator, subagent, id: id(n, time) })

const countingOf = (open: OpenPasses) => new LimitCounters(() => ({ open, ready: true }), HOUR_MS)

describe('counting', () => {
  it('counts each pass once, whether it is under way or read, and whatever the order; never past a limit', () => {
    const ops = fc.array(fc.record({ what: fc.constantFrom('begin', 'begin', 'read', 'end', 'fail'), pick: fc.nat(50) }), { maxLength: 80 })
    fc.assert(
      fc.property(ops, fc.integer({ min: 1, max: 6 }), (list, limit) => {
        const open = new OpenPasses(RULES)
        const counters = countingOf(open)
        const unread: PassKey[] = []
        const live: PassKey[] = []
        let sequence = 0
        let begun = 0
        for (const { what, pick } of list) {
          sequence += 1
          if (what === 'begin') {
            const next = key(sequence)
            const active = counters.for(next).rate('pair', 'max_active', limit, T0)
            const session = counters.for(next).session('s', limit * 2)
            const count = unread.length + live.length
            expect(active).toEqual(count < limit ? undefined : { count, retry_after_ms: 1_000 })
            expect(session).toEqual(begun < limit * 2 ? undefined : { count: begun })
            if (active || session) continue
            counters.take(next, 's')
            unread.push(next)
            begun += 1
          }
          const [one] = unread.splice(pick % Math.max(1, unread.length), what === 'read' || what === 'fail' ? 1 : 0)
          if (one && what === 'read') {
            const work = step('work', sequence, { key: one, time: T0, session: 's' })
            open.apply(work)
            counters.read(work)
            live.push(one)
          }
          if (one && what === 'fail') {
            counters.release(one)
            begun -= 1
          }
          const [ended] = live.splice(pick % Math.max(1, live.length), what === 'end' ? 1 : 0)
          if (ended) open.apply(step('return', sequence, { key: ended, time: T0, by: 'passover', attempt: 0 }))
          expect(unread.length + live.length).toBeLessThanOrEqual(limit)
        }
      }),
    )
  })

  it("one agent alone never has more than half of a subagent's limit, held passes take none of it, and a pair's own limit replaces that", () => {
    const ops = fc.array(
      fc.record({
        what: fc.constantFrom('begin', 'begin', 'hold', 'read', 'dispatch', 'end'),
        from: fc.constantFrom('alice', 'mallory'),
        pick: fc.nat(50),
      }),
      { maxLength: 120 },
    )
    const own = fc.option(fc.integer({ min: 1, max: 9 }), { nil: undefined })
    fc.assert(
      fc.property(ops, fc.integer({ min: 1, max: 9 }), own, (list, limit, of_alice) => {
        const open = new OpenPasses(RULES)
        const counters = countingOf(open)
        const passes: { key: PassKey; held: boolean; read: boolean }[] = []
        const of = (from: string) => passes.filter(({ key }) => key.originator === from)
        let sequence = 0
        for (const { what, from, pick } of list) {
          sequence += 1
          const next = key(sequence, from)
          const pair = from === 'alice' && of_alice !== undefined ? { max_active: of_alice } : {}
          const fault = limitFault({
            counts: counters.for(next),
            limits: { pair, subagent: { max_active: limit } },
            policy: basePolicy({}, { from, to: 'audit' }, undefined).effective,
            key: next,
            root: undefined,
            counted: () => undefined,
            now: T0,
          })
          const taken = passes.filter(({ held }) => !held).length
          const mine = of(from).filter(({ held }) => !held).length
          const room = taken < limit && (pair.max_active === undefined ? mine < limit / 2 : of(from).length < pair.max_active)
          expect(fault === undefined).toBe(room)
          if ((what === 'begin' || what === 'hold') && room) {
            counters.take(next, undefined, what === 'hold')
            passes.push({ key: next, held: what === 'hold', read: false })
          }
          const unread = passes.filter(({ read }) => !read)
          const one = unread[pick % Math.max(1, unread.length)]
          if (what === 'read' && one) {
            const first = step(one.held ? 'held' : 'work', sequence, { key: one.key, time: T0 })
            open.apply(first)
            counters.read(first)
            one.read = true
          }
          const known = passes.filter(({ read }) => read)
          const two = known[pick % Math.max(1, known.length)]
          if (what === 'dispatch' && two?.held) {
            open.apply(step('work', sequence, { key: two.key, time: T0 }))
            two.held = false
          }
          if (what === 'end' && two) {
            open.apply(step('return', sequence, { key: two.key, time: T0, by: 'passover', attempt: 0 }))
            passes.splice(passes.indexOf(two), 1)
          }
          const again = OpenPasses.restore(open.snapshot(), RULES)?.tallies
          expect(again?.of('subagent', next)?.held ?? 0).toBe(passes.filter(({ held, read }) => held && read).length)
        }
      }),
    )
  })

  it('a step that is read takes no ticket of another pass, and a refusal takes its own', () => {
    const counters = new LimitCounters(() => undefined, HOUR_MS)
    counters.take(key(1), 's')
    counters.take(key(2), 's')
    counters.read(step('fence', 5, { key: key(1) }))
    counters.read(step('return', 6, { key: key(1), by: 'audit' }))
    expect(counters.underway).toBe(2)
    counters.read(step('return', 7, { key: key(1), by: 'passover' }))
    expect(counters.underway).toBe(1)
    expect(counters.for(key(3)).session('s', 1)).toEqual({ count: 1 })
    expect(counters.for(key(3)).session('other', 1)).toBeUndefined()
  })

  it('tells a session and a pair that are full without a look at the passes of others, however many are under way', () => {
    const counters = new LimitCounters(() => undefined, HOUR_MS)
    for (let n = 1; n <= 9; n++) counters.take(key(n), n <= 3 ? 's' : `other ${n}`)
    counters.take(key(1), 's')
    let looked = 0
    const tell = () => {
      using looks = vi.spyOn(Map.prototype, 'values')
      const counts = counters.for(key(99))
      const told = [counts.session('s', 3), counts.session('s', 4), counts.session('other 5', 2)]
      const open = (limit: number) => counts.rate('pair', 'max_active', limit, T0)
      expect([open(9), open(10)]).toEqual([{ count: 9, retry_after_ms: 1_000 }, undefined])
      expect(counters.for(key(99, 'bob')).rate('pair', 'max_active', 1, T0)).toBeUndefined()
      looked = looks.mock.calls.length
      return told
    }
    expect([tell(), looked]).toEqual([[{ count: 3 }, undefined, undefined], 0])
  })

  it('counts nothing of what is read again from the start', () => {
    const counters = new LimitCounters(() => undefined, HOUR_MS)
    counters.take(key(1), 's')
    counters.clear()
    const counts = counters.for(key(2))
    counters.take(key(3, 'bob'), 's')
    expect([counts.session('s', 1), counts.rate('pair', 'max_active', 1, T0)]).toEqual([{ count: 1 }, undefined])
    expect([counters.underway, counts.session('s', 2)]).toEqual([1, undefined])
  })

  it('where nobody folds it counts what it let through itself, rates not at all', () => {
    const counters = new LimitCounters(() => undefined, HOUR_MS)
    for (let n = 1; n <= 3; n++) {
      counters.take(key(n), 's')
      counters.stored(key(n), T0)
    }
    expect(counters.underway).toBe(0)
    expect(counters.for(key(9)).ready).toBe(false)
    expect(counters.for(key(9)).session('s', 3)).toEqual({ count: 3 })
  })

  it('counts the minute by pair and by subagent, and says when it has room again', () => {
    const open = new OpenPasses(RULES)
    const counters = countingOf(open)
    const at = (n: number, from: string, time: number) => {
      const one = key(n, from, 'audit', time)
      open.apply(step('work', 2 * n, { key: one, time }))
      open.apply(step('return', 2 * n + 1, { key: one, time, by: 'passover', attempt: 0 }))
    }
    at(1, 'alice', T0)
    at(2, 'bob', T0 + 20_000)
    const now = T0 + 30_000
    const rate = (from: string, scope: 'pair' | 'subagent', limit: number) =>
      counters.for(key(9, from)).rate(scope, 'max_passes_per_minute', limit, now)
    expect(rate('alice', 'pair', 1)).toEqual({ count: 1, retry_after_ms: 31_000 })
    expect(rate('bob', 'pair', 1)).toEqual({ count: 1, retry_after_ms: 51_000 })
    expect(rate('carol', 'pair', 1)).toBeUndefined()
    expect(rate('carol', 'subagent', 2)).toEqual({ count: 2, retry_after_ms: 31_000 })
    expect(counters.for(key(9)).rate('subagent', 'max_active', 1, now)).toBeUndefined()
    // What is under way began just now: of three that may begin, the first of those that are read makes room.
    counters.take(key(10, 'carol'), 's')
    expect(rate('carol', 'subagent', 3)).toEqual({ count: 3, retry_after_ms: 31_000 })
    expect(rate('carol', 'pair', 1)).toEqual({ count: 1, retry_after_ms: 61_000 })
  })
})

describe('held passes of one originator', () => {
  it('are counted like a naive count, whoever they are for, until they are approved, end, or are read again from a snapshot', () => {
    const op = fc.record({
      what: fc.constantFrom('hold', 'hold', 'hold', 'read', 'read', 'fail', 'approve', 'end', 'restart'),
      from: fc.constantFrom('alice', 'bob'),
      to: fc.constantFrom('audit', 'scout'),
      pick: fc.nat(50),
    })
    fc.assert(
      fc.property(fc.array(op, { maxLength: 80 }), fc.integer({ min: 1, max: 4 }), (ops, limit) => {
        let open = new OpenPasses(RULES)
        let counters = countingOf(open)
        const underway: PassKey[] = []
        const held: PassKey[] = []
        const dispatched: PassKey[] = []
        let sequence = 0
        const apply = (kind: 'held' | 'work' | 'return', one: PassKey) => {
          const read = step(kind, sequence, { key: one, time: T0, ...(kind === 'return' && { by: 'passover', attempt: 0 }) })
          open.apply(read)
          counters.read(read)
        }
        const picked = (list: PassKey[], pick: number) => list.splice(pick % Math.max(1, list.length), 1)
        for (const { what, from, to, pick } of ops) {
          sequence += 1
          if (what === 'hold') {
            const next = key(sequence, from, to)
            const count = [...underway, ...held].filter(({ originator }) => originator === from).length
            expect(counters.for(next).held(limit)).toEqual(count < limit ? undefined : { count, retry_after_ms: 60_000 })
            if (count >= limit) continue
            counters.take(next, undefined, true)
            underway.push(next)
          }
          if (what === 'read') {
            for (const one of picked(underway, pick)) {
              apply('held', one)
              held.push(one)
            }
          }
          if (what === 'fail') for (const one of picked(underway, pick)) counters.release(one)
          if (what === 'approve') {
            for (const one of picked(held, pick)) {
              apply('work', one)
              dispatched.push(one)
            }
          }
          // Denied, cancelled and expired passes end, as those do that were approved before.
          if (what === 'end') for (const one of picked(pick % 2 ? held : dispatched, pick)) apply('return', one)
          if (what === 'restart') {
            open = OpenPasses.restore(JSON.parse(JSON.stringify(open.snapshot())), RULES) as OpenPasses
            counters = countingOf(open)
            underway.length = 0
          }
        }
      }),
    )
  })
})

describe('counts over restarts', () => {
  const work = (sequence: number, time: number, session: string): Step =>
    step('work', sequence, { key: key(sequence, 'alice', 'audit', time), time, session })

  it('a snapshot, whole or in slices, keeps open passes, minutes and sessions', () => {
    const open = new OpenPasses(RULES)
    for (let n = 1; n <= 20; n++) open.apply(work(n, T0 + n, n % 2 ? 'odd' : 'even'))
    open.apply(step('return', 21, { key: key(1, 'alice', 'audit', T0 + 1), by: 'passover', attempt: 0, time: T0 + 21 }))
    const slices = [...open.slices(3)]
    expect(slices.length).toBeGreaterThan(5)
    const joined = joinSnapshotChunks(slices)
    for (const snapshot of [open.snapshot(), joined]) {
      const again = OpenPasses.restore(JSON.parse(JSON.stringify(snapshot)), RULES)
      const counters = countingOf(again!)
      const counts = counters.for(key(99))
      expect(counts.rate('subagent', 'max_active', 1, T0 + 30)).toEqual({ count: 19, retry_after_ms: 1_000 })
      expect(counts.rate('pair', 'max_passes_per_minute', 1, T0 + 30)).toMatchObject({ count: 20 })
      expect(counts.session('odd', 1)).toEqual({ count: 10 })
      expect(again?.snapshot()).toEqual(open.snapshot())
    }
  })

  it('a session is kept for two id windows after its last pass, and carried over while it goes on', () => {
    const open = new OpenPasses(RULES)
    open.apply(work(1, T0, 'going'))
    open.apply(work(2, T0, 'quiet'))
    for (let n = 3; n < 12; n++) open.apply(work(n, T0 + (n - 2) * HOUR_MS, 'going'))
    expect(open.sessions.count('going')).toBe(10)
    expect(open.sessions.count('quiet')).toBe(0)
    const kept = new OpenPasses(RULES)
    kept.apply(work(1, T0, 'quiet'))
    kept.apply(work(2, T0 + 2 * HOUR_MS, 'other'))
    expect(kept.sessions.count('quiet')).toBe(1)
  })

  it('counts a pass that is held once, and a late or doubled step not at all', () => {
    const open = new OpenPasses(RULES)
    const one = key(1)
    open.apply(step('held', 1, { key: one, time: T0, session: 's' }))
    open.apply(step('work', 2, { key: one, time: T0 + 1, session: 's' }))
    open.apply(step('work', 3, { key: one, time: T0 + 2, session: 's' }))
    open.apply(step('work', 4, { key: key(2), time: T0 + HOUR_MS + 1, session: 's' }))
    expect(open.sessions.count('s')).toBe(1)
    expect(open.tallies.of('pair', one)?.active).toBe(1)
    expect(keyText(one)).toContain('alice')
  })
})
