import { expect, it } from 'vitest'
import { RollbackDetector } from './rollback-detector.js'

/** Somebody who has read up to 9, and a stream that says what it has there when it is asked to. */
function reading(now: { time: number | undefined; last: number }) {
  let reconnected: () => void = () => undefined
  let answer: () => void = () => undefined
  const asked = new Promise<void>((resolve) => {
    answer = resolve
  })
  const bus = {
    onReconnect: (listener: () => void) => {
      reconnected = listener
      return () => undefined
    },
    bounds: async () => ({ first: 1, last: now.last }),
    journal: {
      message: async () => {
        await asked
        return now.time === undefined ? undefined : { time: now.time }
      },
    },
  }
  const back = new RollbackDetector({ bus, clock: { after: () => undefined }, log: { warn: () => undefined } } as never)
  const done: string[] = []
  back.watch({ position: 9, time: 90, abandon: () => void done.push('abandoned') })
  void back.found.then((what) => done.push(what))
  const take = () => void done.push('taken')
  return { back, done, take, reconnect: () => reconnected(), answer: () => answer() }
}

// Fails where what comes after a reconnect is taken at once: a segment would be sealed of what was read before and of what stands there now.
it.each([
  [
    'has another message there: nothing more is taken',
    { time: 91, last: 20 },
    /^the stream lost its newest messages and continued: at sequence 9 /,
  ],
  ['ends before it', { time: undefined, last: 4 }, /rolled back to sequence 4, although its messages 5 to 9 had been read$/],
])('after a reconnect a stream that %s', async (_, now, what) => {
  const { back, done, take, reconnect, answer } = reading(now)
  reconnect()
  const taken = back.unlessLost(take)
  expect(done).toEqual([])
  answer()
  await taken
  await back.unlessLost(take)
  await new Promise(setImmediate)
  expect(done).toEqual(['abandoned', expect.stringMatching(what)])
})

it.each([
  ['the same message', { time: 90, last: 20 }],
  ['nothing there, since it was deleted,', { time: undefined, last: 9 }],
])('a stream that has %s is read on', async (_, now) => {
  const { back, done, take, reconnect, answer } = reading(now)
  reconnect()
  answer()
  await back.unlessLost(take)
  expect(done).toEqual(['taken'])
})

it('what is lost is told once, and nothing when nobody reads any more', async () => {
  const one = reading({ time: 90, last: 20 })
  one.back.onRollback(3)
  one.back.onRollback(2)
  const other = reading({ time: 90, last: 20 })
  other.back[Symbol.dispose]()
  other.back.onRollback(3)
  await new Promise(setImmediate)
  expect(one.done).toEqual([
    'abandoned',
    'the stream lost its newest messages: it rolled back to sequence 3, although its messages 4 to 9 had been read',
  ])
  expect(other.done).toEqual([])
})
