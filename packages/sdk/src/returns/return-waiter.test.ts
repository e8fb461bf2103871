import { type Bus, encode, PartError } from '@passover/bus'
import { passError } from '@passover/core'
import { HEADER, journalFilter, type PassKey, type Step } from '@passover/schemas'
import { describe, expect, it } from 'vitest'
import type { ReturnOutcome } from '../delivery/pending-return.js'
import type { Deps } from '../runtime/dependencies.js'
import { ReturnWaiter } from './return-waiter.js'

/** A clock that only the test moves, with the timers on it. */
function manualClock() {
  let time = 0
  let timers: { at: number; fn: () => void }[] = []
  return {
    /** By how much it is ahead of the server's, ms. */
    ahead: 0,
    now() {
      return 1_000_000 + time + this.ahead
    },
    monotonic: () => time,
    after(ms: number, fn: () => void): Disposable {
      const timer = { at: time + ms, fn }
      timers.push(timer)
      return {
        [Symbol.dispose]: () => {
          timers = timers.filter((one) => one !== timer)
        },
      }
    },
    async advance(ms: number) {
      for (const end = time + ms; time < end; ) {
        time = Math.min(end, time + 50)
        for (const due of timers.filter(({ at }) => at <= time)) {
          timers = timers.filter((one) => one !== due)
          due.fn()
        }
        await new Promise((later) => setImmediate(later))
      }
    },
  }
}

function returns(glimpse: (key: PassKey) => Promise<Step[]>, last?: () => Promise<unknown>) {
  const clock = manualClock()
  let reconnect: () => void = () => undefined
  const bus = {
    connected: true,
    clockKnown: true,
    now: () => clock.now(),
    journal: { glimpse, last },
    subjects: { return: () => 'return' },
    // Its bucket has no leader.
    parts: { fetch: () => Promise.reject(new PartError('the bucket does not answer', 'missing', true)) },
    subscribeReturns: async () => ({ [Symbol.asyncDispose]: async () => undefined }),
    ask: async () => ({ ok: false, error: passError('E041', 'no such pass') }),
    onReconnect(listener: () => void) {
      reconnect = listener
      return () => undefined
    },
  }
  const deps: Deps = { bus: bus as unknown as Bus, clock, random: { bytes: (n) => new Uint8Array(n) } }
  const made = new ReturnWaiter(deps, { name: 'alice', instance: 'abcdefg', window: { id_window_ms: 3_600_000 } })
  const outcomes: ReturnOutcome[] = []
  const wait = (count: number, timeout_ms: number) => {
    for (let n = 0; n < count; n++) {
      const key = { originator: 'alice', subagent: 'audit', id: `given-id-${n}` }
      const pending = made.register({ key, own_id: true }, (outcome) => outcomes.push(outcome))
      made.onPublished(pending, n + 1, timeout_ms)
    }
  }
  const adopt = (then?: 'send') => {
    const key = { originator: 'alice', subagent: 'audit', id: 'given-id-1' }
    return made.subscribeAndPoll(
      made.register({ key, digest: 'of-its-request', own_id: false }, (outcome) => outcomes.push(outcome)),
      then,
    )
  }
  return { bus, clock, wait, adopt, outcomes, reconnect: () => reconnect() }
}

describe('Returns', () => {
  it('reads all that is open after a reconnect, each once, without waiting for sweeps', async () => {
    const read: string[] = []
    const { clock, wait, reconnect } = returns(async ({ id }) => {
      read.push(id)
      return []
    })
    wait(1_000, 60_000)
    reconnect()
    await clock.advance(100)
    for (let n = 0; n < 50; n++) await new Promise((later) => setImmediate(later))
    expect(read).toHaveLength(1_000)
    expect(new Set(read).size).toBe(1_000)
  })

  it('gives up what could not be read 30 s after it should have ended, however many wait before it', async () => {
    const { clock, wait, outcomes } = returns(() => new Promise(() => undefined))
    wait(200, 1_000)
    await clock.advance(35_000)
    expect(outcomes).toEqual([])
    await clock.advance(2_000)
    expect(outcomes).toHaveLength(200)
    expect(outcomes.every((outcome) => !outcome.ok && outcome.error.code === 'E040')).toBe(true)
  })

  it('says soon that nobody knows a pass that was asked for elsewhere', async () => {
    const { clock, adopt, outcomes } = returns(async () => [])
    expect(await adopt()).toBe('nothing')
    await clock.advance(8_000)
    expect(outcomes).toMatchObject([{ ok: false, error: { code: 'E041' } }])
  })

  it('waits until its deadline for a return that it found and cannot load, also while the server is away', async () => {
    const key = { originator: 'alice', subagent: 'audit', id: 'given-id-0' }
    const guard = (sequence: number) => ({ sequence, subject: journalFilter(key) })
    const work: Step = { type: 'step', kind: 'work', key, by: 'medium', sequence: 5, time: 1_000_000, attempt: 0, guard: guard(0) }
    const back: Step = { ...work, kind: 'return', by: 'audit', sequence: 6, attempt: 1, guard: guard(5) }
    const parts = [{ name: 'a', hash: 'f'.repeat(64), size: 1, owner: 'audit' }]
    const data = encode({ v: 1, output: {}, parts })
    const stored = { sequence: 6, time: 1_000_000, data, headers: new Map([[HEADER.contentType, 'application/msgpack']]) }
    let away = false
    const { clock, wait, outcomes } = returns(
      async () => {
        if (away) throw new Error('the server is away')
        return [work, back]
      },
      async () => stored,
    )
    wait(1, 60_000)
    await clock.advance(4_000)
    away = true
    await clock.advance(50_000)
    expect(outcomes).toEqual([])
    await clock.advance(20_000)
    expect(outcomes).toMatchObject([{ ok: false, error: { code: 'E040' } }])
  })

  // Found by simulation seed 960546705: it was waited for without an end.
  it('asks the audit about a held pass whose journal is empty later', async () => {
    const key = { originator: 'alice', subagent: 'audit', id: 'given-id-1' }
    const digest = 'of-its-request'
    const guard = { sequence: 0, subject: journalFilter(key) }
    const held: Step = { type: 'step', kind: 'held', key, by: 'passover', sequence: 3, time: 1_000_000, attempt: 0, guard, digest }
    let steps = [held]
    const { clock, adopt, outcomes } = returns(async () => steps)
    expect(await adopt('send')).toBe('begun')
    await clock.advance(60_000)
    expect(outcomes).toEqual([])
    steps = []
    await clock.advance(40_000)
    expect(outcomes).toMatchObject([{ ok: false, error: { code: 'E041' } }])
  })

  // Found by an hour of chaos: the servers were away for longer than that, and the request was stored as soon as they were back.
  it('does not give up what it is about to send, however long that takes', async () => {
    const { clock, adopt, outcomes, reconnect } = returns(async () => [])
    expect(await adopt('send')).toBe('nothing')
    await clock.advance(8_000)
    reconnect()
    await clock.advance(1_000)
    expect(outcomes).toEqual([])
  })

  // Found by simulation seed 96100355: the wait would have ended three minutes later.
  it('waits no longer because its clock was fast when the request was stored', async () => {
    const { clock, wait, outcomes } = returns(async () => [])
    clock.ahead = 180_000
    wait(1, 1_000)
    clock.ahead = 0
    await clock.advance(20_000)
    expect(outcomes).toMatchObject([{ ok: false, error: { code: 'E040' } }])
  })

  it('does not give up an open pass by a local clock that was never compared with the server’s', async () => {
    const key = { originator: 'alice', subagent: 'audit', id: 'given-id-1' }
    const guard = { sequence: 0, subject: journalFilter(key) }
    const work: Step = {
      type: 'step',
      kind: 'work',
      key,
      by: 'medium',
      sequence: 5,
      time: 1_000_000,
      attempt: 0,
      guard,
      timeout_ms: 60_000,
    }
    const { bus, clock, adopt, outcomes } = returns(async () => [work])
    Object.assign(bus, { clockKnown: false })
    clock.ahead = 180_000
    expect(await adopt('send')).toBe('begun')
    await clock.advance(50_000)
    expect(outcomes).toEqual([])
    Object.assign(bus, { clockKnown: true })
    clock.ahead = 0
    await clock.advance(50_000)
    expect(outcomes).toMatchObject([{ ok: false, error: { code: 'E041' } }])
  })
})
