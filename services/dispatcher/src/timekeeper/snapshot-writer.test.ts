import type { ObjectData } from '@passover/bus'
import { type Clock, OpenPasses } from '@passover/core'
import { expect, test } from 'vitest'
import type { Context } from '../admission/context.js'
import { SnapshotWriter } from './snapshot-writer.js'

const EVERY_MS = 10_000
const OPEN = 5_000
const START = 1_700_000_000_000
const WRITTEN = 128 * 1024
/** A chunk is over with the piece that makes it full. */
const PIECE = 16 * 1024

/** Time goes on when something is waited for, by what somebody says that it took, and by `look_ms` with each look at it. */
function timeOf(look_ms: number) {
  const due: { at: number; fn: () => void }[] = []
  const time = { now: 0, waits: [] as number[] }
  const clock: Clock = {
    now: () => START + time.now,
    monotonic: () => (time.now += look_ms),
    after(ms, fn) {
      time.waits.push(ms)
      const one = { at: time.now + ms, fn }
      due.push(one)
      return { [Symbol.dispose]: () => void (due.includes(one) && due.splice(due.indexOf(one), 1)) }
    },
  }
  /** Until nothing but the next snapshot is waited for. */
  const goOn = async () => {
    do {
      const [next] = due.splice(0, 1)
      if (!next) throw new Error('nothing is waited for')
      time.now = Math.max(time.now, next.at)
      next.fn()
      for (let turns = 0; turns < 200; turns++) await new Promise(setImmediate)
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

/** Snapshots of the same fold, each of a later position; a slice takes `slice_ms`, and storing a piece `piece_ms`. */
function snapshotsOf({ slice_ms = 0, piece_ms = 0 }) {
  const { clock, time, goOn } = timeOf(slice_ms)
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
      time.now += piece_ms
    }
    stored.push(chunks)
  }
  const context = { deps: { clock, log: { warn: () => undefined } }, options: { snapshot_ms: EVERY_MS } } as unknown as Context
  let position = 0
  const known = () => ({ open, advisories: [], decided: [], position: ++position, time: START })
  const snapshots = new SnapshotWriter(context, { put } as never, { from: undefined, known })
  snapshots.schedule()
  return { snapshots, time, stored, goOn }
}

test('between two pieces of a snapshot others have nine times as long as a piece takes', async () => {
  const { time, stored, goOn } = snapshotsOf({ slice_ms: 1 })
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

test('what takes no time is not rested from', async () => {
  const { time, stored, goOn } = snapshotsOf({})
  await goOn()
  expect(stored).toHaveLength(1)
  expect(time.waits).toEqual([EVERY_MS, EVERY_MS])
})

test.each([
  { piece_ms: 10, next: 'twenty times what was worked' },
  { piece_ms: 1_000, next: 'a minute' },
])('the more is open, the rarer they are: the next one begins after $next ($piece_ms ms a piece)', async ({ piece_ms }) => {
  const { time, stored, goOn } = snapshotsOf({ piece_ms })
  await goOn()
  expect(stored).toHaveLength(1)
  const worked = time.now - EVERY_MS - 9 * (time.waits.length - 2)
  expect(worked).toBeGreaterThan(EVERY_MS / 20)
  expect(time.waits.at(-1)).toBe(Math.min(6 * EVERY_MS, 20 * worked))
})

test('the last one, which a stopping process waits for, rests no more', async () => {
  const { snapshots, time, stored } = snapshotsOf({ slice_ms: 1 })
  snapshots.stop()
  await snapshots.save()
  expect(stored).toHaveLength(1)
  expect(time.waits).toEqual([EVERY_MS])
})

test('one that rests when the process is to stop ends its rest, and then goes on without', async () => {
  const { snapshots, time, stored, goOn } = snapshotsOf({ slice_ms: 1 })
  const saved = snapshots.save()
  await new Promise(setImmediate)
  snapshots.stop()
  const last = snapshots.save()
  await goOn()
  await Promise.all([saved, last])
  expect(stored).toHaveLength(2)
  expect(time.waits, 'the first snapshot that was planned, and one rest').toEqual([EVERY_MS, 9])
})
