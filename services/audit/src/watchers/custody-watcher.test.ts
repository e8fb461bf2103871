import { readHeaders, type StoredMessage, Subjects } from '@passover/bus'
import { expect, test } from 'vitest'
import { CustodyWatcher } from './custody-watcher.js'

/** A server of which the newest word about custody is not read yet, and a clock that is moved by hand. */
async function watching() {
  const subjects = new Subjects()
  const word: StoredMessage = {
    sequence: 9,
    time: 1,
    subject: subjects.custody('pat'),
    headers: readHeaders('NATS/1.0\r\n\r\n'),
    data: new Uint8Array(),
  }
  const due: (() => void)[] = []
  const heard: ((stored: StoredMessage) => void)[] = []
  const follow = async (_: unknown, hear: (stored: StoredMessage) => void) => {
    heard.push(hear)
    return { caughtUp: Promise.resolve() }
  }
  const bus = { subjects, follow, journal: { newest: async () => word } }
  const clock = { after: (_: number, fn: () => void) => void due.push(fn) }
  const lost: string[] = []
  const back = { onRollback: () => undefined, lose: (what: string) => void lost.push(what) }
  const watch = await CustodyWatcher.open({ bus, clock, log: { warn: () => undefined }, sealed: -1, back } as never)
  const tick = async () => {
    for (const fn of due.splice(0)) fn()
    await new Promise(setImmediate)
  }
  const hear = (sequence: number) => heard[0]?.({ ...word, sequence })
  return { watch, tick, due, hear, lost }
}

// The simulation moves no other clock: a wait with the process's own timer never ends there (docs/quality/simulation.md#what-it-found).
test('waits by the clock that it is given until it knows what was said, and not for ever', async () => {
  const { watch, tick, due } = await watching()
  let why = ''
  const current = watch.current().catch((error: Error) => {
    why = error.message
  })
  await new Promise(setImmediate)
  for (let ticks = 0; ticks < 500; ticks++) {
    expect([due.length, why]).toEqual([1, ''])
    await tick()
  }
  await current
  expect(why).toBe('the custody event at sequence 9 has not been read yet')
})

// Fails where only what comes after what was read counts: a hold that was stored since, below it, would not be heard, and what is held be removed.
test('what was said and is no longer in the stream makes it know nothing', async () => {
  const { watch, hear, lost } = await watching()
  hear(9)
  expect((await watch.current()).position).toBe(9)
  expect(lost).toEqual([])
  hear(12)
  const why = 'the custody event at sequence 12 is no longer in the stream'
  await expect(watch.current()).rejects.toThrow(why)
  expect(lost).toEqual([why])
})
