import { encode } from '@passover/bus'
import { keyText, type PassRecord } from '@passover/schemas'
import { pino } from 'pino'
import { expect, it } from 'vitest'
import { decodeRecord } from '../../records/compact-record.js'
import { recordKey } from '../../records/record-store.js'
import { RowCache } from '../../records/row-cache.js'
import { Indexer, type IndexerDeps } from './indexer.js'
import { PassIndex } from './pass-index.js'

function indexing(reads: (() => Promise<void>)[]) {
  const waited: number[] = []
  const clock = {
    now: () => 0,
    monotonic: () => 0,
    after: (ms: number, fn: () => void) => {
      waited.push(ms)
      queueMicrotask(fn)
      return { [Symbol.dispose]: () => undefined }
    },
  }
  const table = { extent: async () => ({ first: 1, last: 0, entries: 0 }), read: () => reads.shift()?.() ?? Promise.resolve() }
  const deps = { table, clock, index: new PassIndex(1), log: pino({ level: 'silent' }) } as unknown as IndexerDeps
  return { waited, indexing: new Indexer(deps) }
}

const fails = async () => {
  throw new Error('nobody answers')
}

// Fails where it is tried once: pages would say `complete: false`, and old ids not be found, until the next start.
it('tries again what could not be read, the bucket’s records first', async () => {
  const made = indexing([fails, async () => undefined])
  const prepared: boolean[] = []
  const prepare = async () => {
    prepared.push(made.indexing.complete)
    if (prepared.length < 6) throw new Error('nobody answers')
  }
  await made.indexing.prepare({ prepare, damaged: [] })
  expect([prepared, made.waited]).toEqual([new Array(6).fill(true), [5_000, 10_000, 20_000, 40_000, 60_000, 60_000]])
})

it('gives up when it is stopped', async () => {
  const made = indexing([
    async () => {
      made.indexing.stop()
      throw new Error('closed')
    },
  ])
  await made.indexing.prepare({ prepare: fails, damaged: [] })
  expect(made.indexing.complete).toBe(false)
})

// Fails where only questions have newer indexes read: after a quiet week the first one would wait for thousands.
it('what finds ids reads on in the background, one look at a time, and goes on where it failed', async () => {
  const { indexing: one } = indexing([])
  const ends: (() => void)[] = []
  let failing = false
  const finder = {
    trouble: undefined,
    follow: () => {
      if (failing) return Promise.reject(new Error('nobody answers'))
      return new Promise<void>((done) => ends.push(done))
    },
  }
  one.follow(finder)
  one.follow(finder)
  expect(ends).toHaveLength(1)
  failing = true
  ends[0]?.()
  await new Promise((turn) => setImmediate(turn))
  one.follow(finder)
  await new Promise((turn) => setImmediate(turn))
  failing = false
  one.follow(finder)
  expect(ends).toHaveLength(2)
  one.stop()
  ends[1]?.()
  await new Promise((turn) => setImmediate(turn))
  one.follow(finder)
  expect(ends).toHaveLength(2)
})

it('says once that hashes which should be on disk stay in memory', async () => {
  const said: string[] = []
  const log = { warn: ({ trouble }: { trouble: string }) => said.push(trouble), debug: () => undefined }
  const one = new Indexer({ log } as unknown as IndexerDeps)
  const finder = { trouble: 'no space left', follow: async () => undefined }
  for (let n = 0; n < 3; n++) {
    one.follow(finder)
    await new Promise((turn) => setImmediate(turn))
  }
  expect(said).toEqual(['no space left'])
})

/** An id that was used twice, in a bucket that another process may write; and an audit's index of it. */
function usedTwice() {
  const key = { originator: 'alice', subagent: 'audit', id: 'used-again' }
  const bucket = new Map<string, { data: Uint8Array; revision: number }>()
  let last = 0
  const table = {
    entries: async function* () {
      for (const [at, { data }] of [...bucket].sort(([, a], [, b]) => a.revision - b.revision)) {
        yield { key: at, value: decodeRecord(data) as PassRecord }
      }
    },
    bytesOf: async (at: string) => bucket.get(at),
    at: async (revision: number) => [...bucket.values()].find((one) => one.revision === revision),
    extent: async () => ({ first: 1, last, entries: bucket.size }),
    read: async (onEntry: (entry: object) => unknown, { from = 1 } = {}) => {
      const all = [...bucket].map(([at, one]) => ({ key: at, ...one })).sort((a, b) => a.revision - b.revision)
      for (const one of all) if (one.revision >= from) await onEntry(one)
    },
    send: (at: string, data: Uint8Array, revision: number, settle: (outcome: object) => void) => {
      if ((bucket.get(at)?.revision ?? 0) !== revision) return settle({ kind: 'lost' })
      bucket.set(at, { data, revision: ++last })
      settle({ kind: 'stored', sequence: last })
    },
    erase: async (at: string) => bucket.delete(at),
  }
  const write = (n: number, session_id: string) => {
    const requested_at = n * 1_000
    const sequences = { requests: [n * 10], fences: [], last: n * 10 }
    const facts = { v: 1, key, session_id, status: 'held', attempt: 0, requested_at, sequences, decisions: [], events: [] }
    const at = recordKey(key, requested_at, session_id)
    bucket.set(at, { data: encode(facts), revision: ++last })
    return at
  }
  const audit = async () => {
    const index = new PassIndex(1)
    const rows = new RowCache()
    const clock = { now: () => 0, monotonic: () => 0, after: () => ({ [Symbol.dispose]: () => undefined }) }
    const indexing = new Indexer({ table, index, rows, clock, log: pino({ level: 'silent' }) } as unknown as IndexerDeps)
    await indexing.fill()
    const look = async () => {
      for (let n = 0; n < 2; n++) {
        indexing.catchUp()
        await new Promise((turn) => setImmediate(turn))
      }
    }
    return { index, rows, indexing, look, first: () => index.firstOf(key) }
  }
  return { key, write, audit, bucket }
}

const none = () => false

// Fails where the line goes with the newer use: filters and statistics would miss the older one, which has its record.
it('shows the older record of an id again when the newer one is erased, and keeps the newer line when the older one is', async () => {
  const { write, audit } = usedTwice()
  const [, newer] = [write(1, 'older'), write(2, 'newer')]
  const one = await audit()
  expect(one.first()).toBe(20)
  await one.indexing.erase(newer, none)
  expect(one.first()).toBe(10)
  const again = write(3, 'newest')
  const two = await audit()
  await two.indexing.erase(recordKeyOf('older'), none)
  expect(two.first()).toBe(30)
  await two.indexing.erase(again, none)
  expect(two.first()).toBeUndefined()
})

const recordKeyOf = (session: string) => recordKey({ originator: 'alice', subagent: 'audit', id: 'used-again' }, 1_000, session)

// Fails where only an erased record is gone: that leaves no revision that another audit could read.
it('shows it on every audit, also on one that writes nothing itself', async () => {
  const { key, write, audit } = usedTwice()
  const [, newer] = [write(1, 'older'), write(2, 'newer')]
  const [eraser, replica] = [await audit(), await audit()]
  // Both hear the tombstones first.
  for (const { index } of [eraser, replica]) index.forgetFirst(new Set([20]))
  await eraser.indexing.erase(newer, none)
  await replica.look()
  for (const { first, rows } of [eraser, replica]) expect([first(), rows.get(keyText(key))?.session_id]).toEqual([10, 'older'])
})

it('writes no record again that is to be erased as well: its bytes would stay on disk', async () => {
  const { write, audit, bucket } = usedTwice()
  const [older, newer] = [write(1, 'older'), write(2, 'newer')]
  const { revision } = bucket.get(older) as { revision: number }
  await (await audit()).indexing.erase(newer, ({ key }) => key === older)
  expect(bucket.get(older)?.revision).toBe(revision)
})

it('forgets passes of a removed segment whose records another audit erased, and no others', async () => {
  const { write, audit, bucket } = usedTwice()
  const at = write(1, 'older')
  const replica = await audit()
  await replica.indexing.forgetGone({ has: () => true })
  expect(replica.first()).toBe(10)
  bucket.delete(at)
  await replica.indexing.forgetGone({ has: (first) => first >= 11 })
  expect(replica.first()).toBe(10)
  await replica.indexing.forgetGone({ has: () => true })
  expect(replica.first()).toBeUndefined()
})
