import type { Delivery, PullEnd, PullOptions, WorkSource } from '@passover/bus'
import type { Clock } from '@passover/core'
import type { Priority } from '@passover/schemas'
import { describe, expect, it } from 'vitest'
import { WorkPuller, type WorkPullerOptions } from './work-puller.js'

const settle = () => new Promise<void>((done) => setImmediate(done))

/** Time that a test moves on. */
class FakeClock implements Clock {
  #now = 0
  #timers: { at: number; fn: () => void }[] = []
  now = () => this.#now
  monotonic = () => this.#now
  after(ms: number, fn: () => void): Disposable {
    const timer = { at: this.#now + ms, fn }
    this.#timers.push(timer)
    return {
      [Symbol.dispose]: () => {
        this.#timers = this.#timers.filter((one) => one !== timer)
      },
    }
  }
  async advance(ms: number): Promise<void> {
    this.#now += ms
    for (const timer of this.#timers.filter(({ at }) => at <= this.#now)) {
      this.#timers = this.#timers.filter((one) => one !== timer)
      timer.fn()
    }
    await settle()
  }
}

/** A consumer with a queue; pulls that wait are answered when something is put in. */
class FakeSource implements WorkSource {
  readonly pulls: PullOptions[] = []
  readonly #queue: Delivery[] = []
  #open: { left: number; take: (delivery: Delivery) => void; end: (end: PullEnd) => void }[] = []
  gone = false
  constructor(
    readonly priority: Priority,
    readonly clock: Clock,
  ) {}
  put(count: number, delivered = 1): void {
    for (let n = 0; n < count; n++) this.#queue.push({ sequence: n, delivered } as Delivery)
    this.#serve()
  }
  pull(options: PullOptions, onDelivery: (delivery: Delivery) => void): Promise<PullEnd> {
    this.pulls.push(options)
    if (this.gone) return Promise.resolve('gone')
    return new Promise((resolve) => {
      const one = { left: options.batch, take: onDelivery, end: resolve }
      this.#open.push(one)
      this.#serve()
      if (options.expires_ms === 0 && this.#open.includes(one)) {
        this.#open = this.#open.filter((other) => other !== one)
        resolve('empty')
      }
      if (options.expires_ms > 0) {
        this.clock.after(options.expires_ms, () => {
          this.#open = this.#open.filter((other) => other !== one)
          resolve('empty')
        })
      }
    })
  }
  #serve(): void {
    for (;;) {
      const [first] = this.#open
      const next = first && this.#queue.shift()
      if (!first || !next) return
      first.left -= 1
      if (first.left === 0) {
        this.#open.shift()
        first.end('full')
      }
      first.take(next)
    }
  }
  created = async () => 1
  async [Symbol.asyncDispose](): Promise<void> {
    for (const { end } of this.#open.splice(0)) end('failed')
  }
}

function setUp(concurrency: number, more: Partial<WorkPullerOptions> = {}) {
  const clock = new FakeClock()
  const sources = { high: new FakeSource('high', clock), medium: new FakeSource('medium', clock), low: new FakeSource('low', clock) }
  const started: Priority[] = []
  const gone: Priority[] = []
  const pull = new WorkPuller({
    clock,
    sources,
    concurrency,
    start: (_, priority) => started.push(priority),
    arrived: () => undefined,
    gone: (priority) => gone.push(priority),
    ...more,
  })
  return { clock, sources, started, gone, pull }
}

describe('WorkPull', () => {
  it('parks a pull at each idle priority and asks for no more than it can hold', async () => {
    const { sources, pull } = setUp(8)
    pull.begin()
    await settle()
    expect([sources.high.pulls, sources.medium.pulls, sources.low.pulls].map((pulls) => pulls.length)).toEqual([1, 1, 1])
    expect(pull.outstanding).toBeLessThanOrEqual(10)
  })

  it.each([1, 2, 8, 64])('with %i places never holds more than two deliveries beyond them', async (concurrency) => {
    const { clock, sources, started, pull } = setUp(concurrency)
    pull.begin()
    await settle()
    for (const source of Object.values(sources)) source.put(100)
    let done = 0
    for (let round = 0; round < 4_000 && done < 300; round++) {
      await settle()
      expect(pull.running).toBeLessThanOrEqual(concurrency)
      expect(pull.running + pull.held.length + pull.outstanding).toBeLessThanOrEqual(concurrency + 2)
      if (pull.running > 0) {
        pull.finished()
        done += 1
      }
      await clock.advance(10)
    }
    expect(started).toHaveLength(300)
  })

  it('takes 8 : 4 : 1 while all three have a backlog', async () => {
    const { clock, sources, started, pull } = setUp(4)
    for (const source of Object.values(sources)) source.put(1_000)
    pull.begin()
    while (started.length < 260) {
      await clock.advance(10)
      if (pull.running > 0) pull.finished()
    }
    const share = (priority: Priority) => started.slice(0, 260).filter((one) => one === priority).length
    expect(share('high')).toBeGreaterThan(130)
    expect(share('medium')).toBeGreaterThan(60)
    expect(share('low')).toBeGreaterThan(10)
    expect(share('low')).toBeLessThan(45)
  })

  it('fills the whole room from a single queue, a second later where another one had a pull parked', async () => {
    const { clock, sources, started, pull } = setUp(50)
    sources.low.put(500)
    pull.begin()
    for (let round = 0; round < 20; round++) await clock.advance(100)
    expect(started.length).toBe(50)
    expect(pull.running).toBe(50)
  })

  it('says that a consumer is gone, and waits before it asks again', async () => {
    const { clock, sources, gone, pull } = setUp(2)
    sources.high.gone = true
    pull.begin()
    await settle()
    expect(gone).toEqual(['high'])
    await clock.advance(500)
    expect(sources.high.pulls).toHaveLength(1)
    // An account whose imports the server has not loaded yet looks the same.
    expect(pull.trouble).toBeUndefined()
    await clock.advance(600)
    expect(sources.high.pulls).toHaveLength(2)
    expect(pull.trouble).toContain('consumer of high work was deleted')
    sources.high.gone = false
    for (let round = 0; round < 15; round++) await clock.advance(100)
    expect(pull.trouble).toBeUndefined()
  })

  it('asks for one at a time until something comes that was not delivered before', async () => {
    const { clock, sources, started, pull } = setUp(8)
    pull.begin()
    await settle()
    sources.low.put(3, 2)
    sources.low.put(20)
    for (let round = 0; round < 20; round++) await clock.advance(100)
    const { pulls } = sources.low
    expect(pulls.slice(0, 4).map(({ batch }) => batch)).toEqual([1, 1, 1, 1])
    expect(pulls.some(({ batch }) => batch > 1)).toBe(true)
    expect(started).toHaveLength(8)
  })

  it('while it is not open it starts only what was delivered before, or is exempt, and asks for nothing', async () => {
    let open = true
    const exempt = ({ sequence }: Delivery) => sequence === 1
    const { clock, sources, started, pull } = setUp(8, { open: () => open, exempt })
    pull.begin()
    await settle()
    open = false
    sources.high.put(1)
    sources.medium.put(1, 2)
    await settle()
    expect([started, pull.held.length]).toEqual([['medium'], 1])
    const asked = sources.high.pulls.length
    await clock.advance(10_000)
    expect(sources.high.pulls).toHaveLength(asked)
    open = true
    pull.opened()
    await settle()
    expect(started).toEqual(['medium', 'high'])
    expect(sources.high.pulls.length).toBeGreaterThan(asked)
  })

  it('asks for nothing more once it is stopped, and starts what it holds', async () => {
    const { sources, started, pull } = setUp(1)
    pull.begin()
    await settle()
    sources.high.put(1)
    sources.low.put(1)
    await settle()
    const asked = sources.high.pulls.length + sources.low.pulls.length
    await pull.stop()
    expect(started).toEqual(['high'])
    pull.finished()
    await settle()
    expect(started).toEqual(['high', 'low'])
    expect(sources.high.pulls.length + sources.low.pulls.length).toBe(asked)
  })
})
