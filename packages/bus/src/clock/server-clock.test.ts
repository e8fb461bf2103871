import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { BusReadError } from '../types/errors.js'
import { ClockSync } from './clock-sync.js'
import { ServerClock } from './server-clock.js'

// Both clocks stand still but where a test moves them: between two looks at them somebody else may have the processor.
beforeEach(() => void vi.useFakeTimers({ toFake: ['Date', 'performance', 'setTimeout', 'clearTimeout'] }))
afterEach(() => void vi.useRealTimers())

/** A sample taken now, of a server that is `ahead` of the local clock, with a round trip of `ms`, stamped at its begin (0) or end (1). */
function sample(ahead: number, ms: number, stamped = 0.5) {
  const answered = performance.now()
  return { time: Date.now() + ahead - ms * (1 - stamped), asked: answered - ms, answered }
}
const off = (clock: ServerClock) => clock.now() - Date.now()

describe('the server’s clock', () => {
  it('takes a quick answer for what it was half-way', () => {
    const clock = new ServerClock()
    expect(clock.take(sample(5_000, 100))).toBe(true)
    expect(clock.measured).toBe(true)
    expect(Math.abs(off(clock) - 5_000)).toBeLessThan(10)
  })

  it('does not take a slow answer, and is behind rather than ahead for want of a better', () => {
    const clock = new ServerClock()
    expect(clock.take(sample(5_000, 4_000, 1))).toBe(false)
    expect(clock.measured).toBe(false)
    expect(off(clock)).toBeLessThanOrEqual(5_002)
    clock.take(sample(5_000, 4_000, 0))
    expect(Math.abs(off(clock) - 1_000)).toBeLessThan(10)
    clock.take(sample(5_000, 20))
    clock.take(sample(5_000, 4_000, 1))
    expect(Math.abs(off(clock) - 5_000)).toBeLessThan(20)
  })

  it('keeps the better of two that agree, and believes the newer of two that do not', () => {
    const clock = new ServerClock()
    clock.take(sample(5_000, 2))
    clock.take(sample(5_000, 200, 1))
    expect(Math.abs(off(clock) - 5_000)).toBeLessThan(10)
    clock.take(sample(9_000, 200))
    expect(Math.abs(off(clock) - 9_000)).toBeLessThan(10)
  })

  it('is not measured after a doubt until the next good sample, which counts whatever was before', () => {
    const clock = new ServerClock()
    clock.take(sample(5_000, 2))
    clock.doubt()
    expect(clock.measured).toBe(false)
    clock.take(sample(5_080, 200))
    expect(clock.measured).toBe(true)
    expect(Math.abs(off(clock) - 5_080)).toBeLessThan(10)
  })
})

describe('the keeper of the clock', () => {
  it('measures again at once after a slow answer', async () => {
    let asked = 0
    const slowOnce = async () => {
      asked += 1
      const time = Date.now() + 5_000
      if (asked === 1) await vi.advanceTimersByTimeAsync(300)
      return time
    }
    const sync = new ClockSync({ stream: slowOnce, service: async () => undefined })
    expect(await sync.measure()).toBe(true)
    expect(asked).toBe(2)
    expect(Math.abs(off(sync.clock) - 5_000)).toBeLessThan(50)
  })

  it('is not measured by answers that are all slow', async () => {
    const sync = new ClockSync({
      stream: async () => {
        await vi.advanceTimersByTimeAsync(260)
        return Date.now() + 5_000
      },
      service: async () => undefined,
    })
    expect(await sync.measure()).toBe(false)
    expect(sync.clock.measured).toBe(false)
  })

  /** A server 5,000 ms ahead that stamps each answer at its end, so that a clock is ahead of it by half of what the answer took. */
  function keeperOf(...answers: (number | 'fails')[]) {
    let asked = 0
    const stream = async () => {
      const answer = answers[Math.min(asked, answers.length - 1)] ?? 'fails'
      asked += 1
      if (answer === 'fails') throw new BusReadError('no answer', 'timeout')
      await vi.advanceTimersByTimeAsync(answer)
      return Date.now() + 5_000
    }
    const sync = new ClockSync({ stream, service: async () => undefined })
    return { keeper: sync, asked: () => asked }
  }

  // Fails where the first answer that may be believed is the last: a timekeeper would end each pass 100 ms before its time.
  it('is no earlier than it must be: of what took more than 20 ms there is another sample, of three the best counts', async () => {
    const slow = keeperOf(200, 60, 10)
    expect(await slow.keeper.measure()).toBe(true)
    expect(slow.asked()).toBe(3)
    expect(off(slow.keeper.clock) - 5_000).toBeLessThanOrEqual(5)
    const slower = keeperOf(60, 200, 90, 1)
    expect(await slower.keeper.measure()).toBe(true)
    expect(slower.asked()).toBe(3)
    expect(slower.keeper.clock.uncertain_ms).toBe(30)
    const quick = keeperOf(20, 1)
    expect(await quick.keeper.measure()).toBe(true)
    expect(quick.asked()).toBe(1)
  })

  it('is measured by the first of several samples where the others fail', async () => {
    const { keeper: sync, asked } = keeperOf(100, 'fails')
    expect(await sync.measure()).toBe(true)
    expect(asked()).toBe(2)
    expect(sync.clock.measured).toBe(true)
  })

  it('measures again after a minute, sooner while it knows the time by slow answers alone', async () => {
    const { keeper: sync, asked } = keeperOf(100, 100, 100, 1)
    await sync.keep()
    expect(asked()).toBe(3)
    await vi.advanceTimersByTimeAsync(9_000)
    expect(asked()).toBe(3)
    await vi.advanceTimersByTimeAsync(2_000)
    expect(asked()).toBe(4)
    await vi.advanceTimersByTimeAsync(50_000)
    expect(asked()).toBe(4)
    await vi.advanceTimersByTimeAsync(15_000)
    expect(asked()).toBe(5)
    sync.stop()
  })

  // Fails where slow answers are a reason to ask: a service that is slow is asked the more by all.
  it('asks a service, which answers everybody, once a minute as soon as it has the time, however slow the answers are', async () => {
    let asked = 0
    let takes = 100
    const service = async () => {
      asked += 1
      await vi.advanceTimersByTimeAsync(takes)
      return { now: Date.now() + 5_000 }
    }
    const sync = new ClockSync({ stream: () => Promise.reject(new BusReadError('not allowed', 'permission')), service })
    const askedIn = async (ms: number) => {
      const before = asked
      await vi.advanceTimersByTimeAsync(ms)
      return asked - before
    }
    await sync.keep()
    expect(asked).toBe(3)
    expect(sync.clock.uncertain_ms).toBe(50)
    expect(await askedIn(59_000)).toBe(0)
    expect(await askedIn(2_000)).toBe(1)
    // What is not to be believed at all says no more.
    takes = 300
    expect(await askedIn(300_000)).toBe(5)
    expect(sync.clock.uncertain_ms).toBe(50)
    // What another server's clock says is not known yet.
    sync.clock.doubt()
    const before = asked
    await sync.keep()
    expect(asked - before).toBe(3)
    sync.stop()
  })
})
