import { pino } from 'pino'
import { expect, test } from 'vitest'
import { nextCheckDelay, nextIntakeState, StorageBackpressure } from './storage-backpressure.js'

const MIB = 1 << 20

interface Stream {
  bytes: number
  max_bytes?: number
  fails?: boolean
  stuck?: boolean
  changing?: Promise<void>
  open?: number
  requests?: string
}

/** A mark on a stream. */
function markOn(stream: Stream) {
  const asked = { times: 0, set: [] as string[] }
  const bus = {
    usage: async () => {
      asked.times += 1
      // As long as an answer takes, who asks meanwhile gets the same.
      await new Promise((answered) => setImmediate(answered))
      if (stream.fails) throw new Error('nobody answers')
      return { messages: 0, requests: stream.requests ?? 'open', bytes: stream.bytes, max_bytes: stream.max_bytes }
    },
    setRequests: async (state: string) => {
      if (stream.stuck) throw new Error('no leader')
      asked.set.push(state)
      await stream.changing
    },
  }
  const clock = { after: (_ms: number, fn: () => void) => setImmediate(fn) }
  const context = { deps: { bus, clock, log: pino({ level: 'silent' }) }, options: {} } as unknown as ConstructorParameters<
    typeof StorageBackpressure
  >[0]
  const mark = new StorageBackpressure(context, () => stream.open)
  const ask = async (bytes: number, late: number) => {
    const taken = await mark.reserve(bytes)
    if (taken) void stored(bytes, late)
    return taken
  }
  const stored = async (bytes: number, late: number) => {
    for (let n = 0; n < late; n++) await new Promise((next) => setImmediate(next))
    stream.bytes += bytes
    mark.release(bytes)
  }
  /** Asks for so many at a time until one may not be admitted. What may is stored `late` rounds later. Gives the bytes of all that may. */
  const fill = async (bytes: number, { at_a_time = 1, late = 0 } = {}) => {
    for (let sum = 0; ; ) {
      const taken = await Promise.all(Array.from({ length: at_a_time }, () => ask(bytes, late)))
      sum += taken.filter(Boolean).length * bytes
      if (taken.includes(false) || sum >= 64 * MIB) return sum
    }
  }
  return { mark, asked, fill }
}

test.each([
  ['open', 0, 'open'],
  ['open', 0.89, 'open'],
  ['open', 0.9, 'closed'],
  ['closed', 1, 'closed'],
  ['closed', 0.85, 'closed'],
  ['closed', 0.79, 'open'],
] as const)('%s at %d becomes %s', (requests, used, expected) => {
  expect(nextIntakeState(requests, used)).toBe(expected)
})

test('checks the usage of the stream more often as it fills up', () => {
  expect([0, 0.69, 0.7, 0.95].map((used) => nextCheckDelay(used, 2_000))).toEqual([2_000, 2_000, 250, 250])
})

// Fails where nothing is counted, and where what is on its way is not: what was asked for before the mark would be admitted beyond it.
test.each([
  { at_a_time: 1, late: 0 },
  { at_a_time: 7, late: 3 },
  { at_a_time: 100, late: 20 },
])('what is admitted stays below the mark, and what fits is: $at_a_time at a time, stored $late rounds later', async (how) => {
  const { mark, asked, fill } = markOn({ bytes: 4 * MIB, max_bytes: 10 * MIB })
  const admitted = await fill(100_000, how)
  expect(admitted).toBeLessThanOrEqual(5 * MIB)
  expect(admitted).toBeGreaterThan(4.8 * MIB)
  expect(asked.times).toBeLessThan(200)
  expect(await mark.reserve(MIB)).toBe(false)
})

// Fails where what was on its way when a look began is counted against the room that it found.
test('does not count messages stored during a usage check twice', async () => {
  const stream = { bytes: 4 * MIB, max_bytes: 10 * MIB }
  const { mark } = markOn(stream)
  expect(await mark.reserve(3 * MIB)).toBe(true)
  const second = mark.reserve(1.5 * MIB)
  stream.bytes += 3 * MIB
  mark.release(3 * MIB)
  expect(await second).toBe(true)
})

// Fails where the share is a quarter of what is left.
test('keeps ten concurrent dispatchers below the mark, except for one message each', async () => {
  const stream = { bytes: 40 * MIB, max_bytes: 100 * MIB }
  const admitted = await Promise.all(Array.from({ length: 10 }, () => markOn(stream).fill(100_000, { at_a_time: 100, late: 1 })))
  expect(admitted.reduce((sum, one) => sum + one)).toBeLessThanOrEqual(50 * MIB + 10 * 100_000)
})

test('admits requests that fit while it stops, even if they wait for its share', async () => {
  const { mark } = markOn({ bytes: 4 * MIB, max_bytes: 10 * MIB })
  mark.stop()
  expect(await Promise.all(Array.from({ length: 20 }, () => mark.reserve(100_000)))).not.toContain(false)
})

test('nobody waits until requests are closed, nor again for a server that did not say while the room last seen is enough', async () => {
  const changing = new Promise<void>(() => undefined)
  const closing = markOn({ bytes: 9 * MIB, max_bytes: 10 * MIB, changing })
  expect([await closing.mark.reserve(MIB), await closing.mark.reserve(MIB), closing.asked.set]).toEqual([false, false, ['closed']])
  const stream: Stream = { bytes: 4 * MIB, max_bytes: 10 * MIB }
  const { mark, asked } = markOn(stream)
  expect(await mark.reserve(MIB)).toBe(true)
  stream.fails = true
  expect(await mark.reserve(MIB)).toBe(true)
  expect([mark.reserve(MIB), mark.reserve(MIB), asked.times]).toEqual([true, true, 2])
  expect(mark.reserve(MIB)).toBeInstanceOf(Promise)
})

// Fails where only what is stored counts: a backlog of small requests is answered by returns that together are more than what is left above the mark.
test('reserves space for the return of each open pass', async () => {
  const { mark, asked } = markOn({ bytes: 4 * MIB, max_bytes: 10 * MIB, open: 5 * 1_024 })
  expect(await mark.reserve(MIB)).toBe(false)
  expect(asked.set).toEqual(['closed'])
  expect(mark.state).toBe('closed')
})

test('who does not know what is open lets requests in no more and admits none: another one sees more of the stream used', async () => {
  const closed = { bytes: MIB, max_bytes: 10 * MIB, requests: 'closed' }
  const [unknowing, knowing] = [markOn(closed), markOn({ ...closed, open: 7 })]
  expect([await unknowing.mark.reserve(MIB), await knowing.mark.reserve(MIB)]).toEqual([false, true])
  expect([unknowing.asked.set, unknowing.mark.state, knowing.asked.set]).toEqual([[], 'closed', ['open']])
})

test('counts messages stored by others, and space freed by deletions', async () => {
  const stream = { bytes: 0, max_bytes: 10 * MIB }
  const { mark, asked } = markOn(stream)
  expect(await mark.reserve(MIB)).toBe(true)
  stream.bytes = 9.5 * MIB
  expect([await mark.reserve(2 * MIB), await mark.reserve(2 * MIB)]).toEqual([false, false])
  expect(asked.set).toEqual(['closed', 'closed'])
  stream.bytes = 2 * MIB
  expect(await mark.reserve(2 * MIB)).toBe(true)
})

test('little is admitted before anything is known, and all where there is no limit or nobody answers', async () => {
  const { mark, asked, fill } = markOn({ bytes: 0 })
  expect([mark.reserve(1_000), asked.times]).toEqual([true, 0])
  expect(await fill(MIB, { at_a_time: 4 })).toBe(64 * MIB)
  expect(asked.times).toBe(1)
  const stuck = markOn({ bytes: 9.5 * MIB, max_bytes: 10 * MIB, stuck: true })
  expect([await stuck.mark.reserve(MIB), stuck.mark.state]).toEqual([false, 'open'])
  const silent = markOn({ bytes: 9 * MIB, max_bytes: 10 * MIB, fails: true })
  expect(await silent.mark.reserve(MIB)).toBe(true)
})
