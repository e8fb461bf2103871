import { pino } from 'pino'
import { expect, test } from 'vitest'
import { lookAfter, nextState, WaterMark } from './water.js'

const MIB = 1 << 20

/** A mark on a stream. */
function markOn(stream: { bytes: number; max_bytes?: number; fails?: boolean; stuck?: boolean; open?: number; requests?: string }) {
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
    },
  }
  const clock = { after: (_ms: number, fn: () => void) => setImmediate(fn) }
  const context = { deps: { bus, clock, log: pino({ level: 'silent' }) }, options: {} } as unknown as ConstructorParameters<
    typeof WaterMark
  >[0]
  const mark = new WaterMark(context, () => stream.open)
  /** Asks for so many at a time until one may not be admitted. What may is stored `late` rounds later. Gives the bytes of all that may. */
  const fill = async (bytes: number, { at_a_time = 1, late = 0 } = {}) => {
    const on_its_way: number[] = []
    let sum = 0
    while (sum < 64 * MIB) {
      const taken = await Promise.all(Array.from({ length: at_a_time }, () => mark.takes(bytes)))
      const admitted = taken.filter(Boolean).length
      on_its_way.push(admitted)
      sum += admitted * bytes
      if (on_its_way.length <= late) continue
      for (let n = on_its_way.shift() ?? 0; n > 0; n--) {
        stream.bytes += bytes
        mark.over(bytes)
      }
      if (taken.includes(false)) break
    }
    return sum
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
  expect(nextState(requests, used)).toBe(expected)
})

test('a stream that fills up is looked at more often', () => {
  expect([0, 0.69, 0.7, 0.95].map((used) => lookAfter(used, 2_000))).toEqual([2_000, 2_000, 250, 250])
})

// Fails where nothing is counted, and where what is on its way is not: what was asked for before the mark would be admitted beyond it.
test.each([
  { at_a_time: 1, late: 0 },
  { at_a_time: 7, late: 3 },
  { at_a_time: 100, late: 20 },
])('what is admitted stays below the mark: $at_a_time at a time, stored $late rounds later', async (how) => {
  const { mark, asked, fill } = markOn({ bytes: 4 * MIB, max_bytes: 10 * MIB })
  const admitted = await fill(100_000, how)
  expect(admitted).toBeLessThanOrEqual(5 * MIB)
  expect(admitted).toBeGreaterThan(3 * MIB)
  expect(asked.times).toBeLessThan(100)
  expect(await mark.takes(MIB)).toBe(false)
})

// Fails where only what is stored counts: a backlog of small requests is answered by returns that together are more than what is left above the mark.
test('a return is kept room for, of each pass that is open', async () => {
  const { mark, asked } = markOn({ bytes: 4 * MIB, max_bytes: 10 * MIB, open: 5 * 1_024 })
  expect(await mark.takes(MIB)).toBe(false)
  expect(asked.set).toEqual(['closed'])
  expect(mark.state).toBe('closed')
})

test('who does not know what is open lets requests in no more: another one sees more of the stream used', async () => {
  const closed = { bytes: MIB, max_bytes: 10 * MIB, requests: 'closed' }
  const [unknowing, knowing] = [markOn(closed), markOn({ ...closed, open: 7 })]
  for (const { mark } of [unknowing, knowing]) expect(await mark.takes(MIB)).toBe(true)
  expect([unknowing.asked.set, unknowing.mark.state, knowing.asked.set]).toEqual([[], 'closed', ['open']])
})

test('what others store is seen, and what is deleted makes room', async () => {
  const stream = { bytes: 0, max_bytes: 10 * MIB }
  const { mark, asked } = markOn(stream)
  expect(await mark.takes(MIB)).toBe(true)
  stream.bytes = 9.5 * MIB
  expect([await mark.takes(2 * MIB), await mark.takes(2 * MIB)]).toEqual([false, false])
  expect(asked.set).toEqual(['closed', 'closed'])
  stream.bytes = 2 * MIB
  expect(await mark.takes(2 * MIB)).toBe(true)
})

test('little is admitted before anything is known, and all where there is no limit or nobody answers', async () => {
  const { mark, asked, fill } = markOn({ bytes: 0 })
  expect([mark.takes(1_000), asked.times]).toEqual([true, 0])
  expect(await fill(MIB, { at_a_time: 4 })).toBe(64 * MIB)
  expect(asked.times).toBe(1)
  const stuck = markOn({ bytes: 9.5 * MIB, max_bytes: 10 * MIB, stuck: true })
  expect([await stuck.mark.takes(MIB), stuck.mark.state]).toEqual([false, 'open'])
  const silent = markOn({ bytes: 9 * MIB, max_bytes: 10 * MIB, fails: true })
  expect(await silent.mark.takes(MIB)).toBe(true)
})
