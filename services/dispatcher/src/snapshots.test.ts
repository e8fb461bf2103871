import type { ObjectData } from '@passover/bus'
import { type Clock, OpenPasses } from '@passover/core'
import { expect, test } from 'vitest'
import type { Context } from './context.js'
import { Snapshots } from './snapshots.js'

const EVERY_MS = 10_000
const OPEN = 5_000
const START = 1_700_000_000_000
const WRITTEN = 128 * 1024
/** A chunk is over with the piece that makes it full. */
const PIECE = 16 * 1024

/** Time goes on when something is waited for, and by what somebody says that it took. */
function timeOf() {
  const due: { at: number; fn: () => void }[] = []
  const time = { now: 0, waits: [] as number[] }
  const clock: Clock = {
    now: () => START + time.now,
    monotonic: () => time.now,
    after(ms, fn) {
      time.waits.push(ms)
      const one = { at: time.now + ms, fn }
      due.push(one)
      return { [Symbol.dispose]: () => void due.splice(due.indexOf(one), 1) }
    },
  }
  /** Until nothing but the next snapshot is waited for. */
  const goOn = async () => {
    do {
      const [next] = due.splice(0, 1)
      if (!next) throw new Error('nothing is waited for')
      time.now = Math.max(time.now, next.at)
      next.fn()
      for (let turns = 0; turns < 50; turns++) await new Promise(setImmediate)
    } while (due.some(({ at }) => at - time.now < 1_000))
  }
  return { clock, time, goOn }
}

function fold(): OpenPasses {
  const open = new OpenPasses({ id_window_ms: 3_600_000, look_after_ms: 5_000 })
  for (let n = 1; n <= OPEN; n++) {
    const key = { originator: 'alice', subagent: 'audit', id: `pass-${String(n).padStart(8, '0')}` }
    open.apply({ type: 'request', originator: 'bob', subagent: 'audit', sequence: 2 * n - 1, time: START })
    const at = { sequence: 2 * n, time: START, attempt: 0, requested_at: START, timeout_ms: 1_000 }
    open.apply({ type: 'step', kind: 'work', key, by: 'medium', ...at })
  }
  return open
}

/** Snapshots of the same fold, each of a later position; storing a chunk takes `chunk_ms`. */
function snapshotsOf(chunk_ms: number) {
  const { clock, time, goOn } = timeOf()
  const open = fold()
  /** Of each snapshot, the bytes that were written between two rests. */
  const stored: number[][] = []
  const put = async (_: string, data: ObjectData) => {
    const chunks = [0]
    let rests = time.waits.length
    for await (const piece of data as AsyncIterable<Uint8Array>) {
      if (time.waits.length > rests) chunks.push(0)
      rests = time.waits.length
      chunks.push((chunks.pop() ?? 0) + piece.length)
      time.now += chunk_ms
    }
    stored.push(chunks)
  }
  const context = { deps: { clock, log: { warn: () => undefined } }, options: { snapshot_ms: EVERY_MS } } as unknown as Context
  let position = 0
  const known = () => ({ open, advisories: [], decided: [], position: ++position, time: START })
  const snapshots = new Snapshots(context, { put } as never, { from: undefined, known })
  snapshots.schedule()
  return { snapshots, time, stored, goOn }
}

test('between two pieces of a snapshot others have nine times as long as a piece takes', async () => {
  const { time, stored, goOn } = snapshotsOf(0)
  await goOn()
  expect(stored).toHaveLength(1)
  const [first, ...rests] = time.waits
  expect(first).toBe(EVERY_MS)
  expect(rests.at(-1), 'what it rested is not what it worked: the next one is due as ever').toBe(EVERY_MS)
  expect(new Set(rests.slice(0, -1))).toEqual(new Set([9]))
  const chunks = stored[0] ?? []
  expect(chunks.length).toBeGreaterThan(3)
  for (const bytes of chunks.slice(0, -1)) {
    expect(bytes).toBeGreaterThanOrEqual(WRITTEN)
    expect(bytes).toBeLessThan(WRITTEN + PIECE)
  }
  // Of slices those of 200 passes, those of 200 requests, and what else there is.
  const slices = (2 * OPEN) / 200 + 1
  expect(rests.length - 1, 'after each but the last').toBe(slices - 1 + chunks.length - 1)
})

test('the more is open, the rarer they are: they are worked at for a twentieth of the time', async () => {
  const { time, stored, goOn } = snapshotsOf(50)
  await goOn()
  expect(stored).toHaveLength(1)
  const worked = time.now - EVERY_MS - 9 * (time.waits.length - 2)
  expect(worked).toBeGreaterThan(EVERY_MS / 20)
  expect(time.waits.at(-1)).toBeCloseTo(worked * 20, 5)
})

test('the last one, which a stopping process waits for, rests no more', async () => {
  const { snapshots, time, stored } = snapshotsOf(0)
  snapshots.stop()
  await snapshots.save()
  expect(stored).toHaveLength(1)
  expect(time.waits).toEqual([EVERY_MS])
})
