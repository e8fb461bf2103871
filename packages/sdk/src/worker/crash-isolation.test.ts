import { expect, it } from 'vitest'
import type { SuspectRank } from '../attempt/begin-attempt.js'
import { CrashIsolation, type Suspect } from './crash-isolation.js'

const settle = () => new Promise<void>((done) => setImmediate(done))

function setUp() {
  let now = 0
  let timers: { at: number; fn: () => void }[] = []
  const stop = (timer: (typeof timers)[number]): void => {
    timers = timers.filter((one) => one !== timer)
  }
  const clock = {
    monotonic: () => now,
    after: (ms: number, fn: () => void) => {
      const timer = { at: now + ms, fn }
      timers.push(timer)
      return { [Symbol.dispose]: () => stop(timer) }
    },
  }
  const isolation = new CrashIsolation(clock)
  const began: string[] = []
  return {
    isolation,
    began,
    /** A suspect that waits for its turn. */
    async suspect(name: string, rank: Partial<SuspectRank> = {}): Promise<Suspect> {
      const suspect = isolation.suspect()
      void suspect
        .turn({ attempt: 2, last: false, max_wait_ms: 1_000_000, ...rank })
        .then((admitted) => began.push(admitted ? name : `not ${name}`))
      await settle()
      return suspect
    },
    async advance(ms: number): Promise<void> {
      now += ms
      for (const { fn } of timers.filter(({ at }) => at <= now)) fn()
      await settle()
    },
  }
}

it('lets suspects begin one at a time, when everything else is over, and nothing else before they are', async () => {
  const { isolation, began, suspect } = setUp()
  const opened: true[] = []
  isolation.join({ opened: () => void opened.push(true), runs: () => false })
  isolation.begin()
  const a = await suspect('a')
  const b = await suspect('b')
  expect([began, isolation.closed]).toEqual([[], true])
  isolation.end()
  await settle()
  expect(began).toEqual(['a'])
  a.end()
  await settle()
  expect([began, isolation.closed, opened.length]).toEqual([['a', 'b'], true, 0])
  b.end()
  expect([isolation.closed, opened.length]).toEqual([false, 1])
})

it('lets those that lost fewer attempts begin first', async () => {
  const { isolation, began, suspect } = setUp()
  isolation.begin()
  await suspect('twice lost', { attempt: 3, last: true })
  const once = await suspect('once lost')
  isolation.end()
  await settle()
  expect(began).toEqual(['once lost'])
  once.end()
  await settle()
  expect(began).toEqual(['once lost', 'twice lost'])
})

it('isolates for a limited time, and again when as much time has passed', async () => {
  const { isolation, began, suspect, advance } = setUp()
  const slow = await suspect('slow')
  await suspect('other')
  await advance(9_999)
  expect([began, isolation.closed]).toEqual([['slow'], true])
  await advance(1)
  expect([began, isolation.closed]).toEqual([['slow', 'other'], false])
  await suspect('soon')
  expect([began.at(-1), isolation.closed]).toEqual(['soon', false])
  slow.end()
  await advance(1_000)
  await suspect('later')
  expect([began.at(-1), isolation.closed]).toEqual(['soon', true])
})

it('waits for what runs already for a limited time, and for nothing beyond half of what is left of a pass', async () => {
  const { isolation, began, suspect, advance } = setUp()
  isolation.begin()
  const impatient = await suspect('impatient', { attempt: 3, last: true, max_wait_ms: 3_000 })
  await suspect('patient', { attempt: 3, last: true })
  await advance(3_000)
  expect(began).toEqual(['impatient'])
  impatient.end()
  await advance(9_999)
  expect(began).toEqual(['impatient'])
  await advance(1)
  expect(began).toEqual(['impatient', 'patient'])
})

it('gives a last attempt more time, and never lets two of them run beside each other', async () => {
  const { isolation, began, suspect, advance } = setUp()
  const first = await suspect('first', { attempt: 3, last: true })
  await suspect('second', { attempt: 3, last: true })
  await advance(59_999)
  expect([began, isolation.closed]).toEqual([['first'], true])
  await advance(1)
  expect([began, isolation.closed]).toEqual([['first'], false])
  first.end()
  await settle()
  expect(began).toEqual(['first', 'second'])
})

it('tells a suspect that is ended before its turn that it is not to begin', async () => {
  const { isolation, began, suspect } = setUp()
  isolation.begin()
  const a = await suspect('a')
  a.end()
  await settle()
  expect([began, isolation.closed]).toEqual([['not a'], false])
  expect(await a.turn({ attempt: 2, last: false, max_wait_ms: 0 })).toBe(false)
})
