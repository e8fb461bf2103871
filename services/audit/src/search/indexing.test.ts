import { encode } from '@passover/bus'
import { pino } from 'pino'
import { expect, it } from 'vitest'
import { recordKey } from '../records.js'
import { Indexing, type IndexingDeps } from './indexing.js'
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
  const deps = { table, clock, index: new PassIndex(1), log: pino({ level: 'silent' }) } as unknown as IndexingDeps
  return { waited, indexing: new Indexing(deps) }
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
  const one = new Indexing({ log } as unknown as IndexingDeps)
  const finder = { trouble: 'no space left', follow: async () => undefined }
  for (let n = 0; n < 3; n++) {
    one.follow(finder)
    await new Promise((turn) => setImmediate(turn))
  }
  expect(said).toEqual(['no space left'])
})

// Fails where the line goes with the newer use: filters and statistics would miss the older one, which has its record.
it('shows the older record of an id again when the newer one is erased, and keeps the newer line when the older one is', async () => {
  const key = { originator: 'alice', subagent: 'audit', id: 'used-again' }
  const record = (revision: number, session_id: string) => {
    const requested_at = revision * 1_000
    const sequences = { requests: [revision * 10], fences: [], last: revision * 10 }
    const facts = { v: 1, key, session_id, status: 'held', attempt: 0, requested_at, sequences, decisions: [], events: [] }
    return { at: recordKey(key, requested_at, session_id), revision, data: encode(facts) }
  }
  const standing = [record(1, 'older'), record(2, 'newer')]
  const table = {
    entries: async function* () {
      for (const { at } of standing) yield { key: at }
    },
    bytesOf: async (at: string) => standing.find((one) => one.at === at),
  }
  const index = new PassIndex(1)
  const one = new Indexing({ table, index } as unknown as IndexingDeps)
  for (const { data, revision } of standing) one.found(data, revision)
  expect(index.firstOf(key)).toBe(20)
  const [older, newer] = standing.splice(0) as [(typeof standing)[0], (typeof standing)[0]]
  standing.push(older)
  await one.erased(newer.at)
  expect(index.firstOf(key)).toBe(10)
  standing.splice(0, 1, newer)
  one.found(newer.data, newer.revision)
  await one.erased(older.at)
  expect(index.firstOf(key)).toBe(20)
  standing.pop()
  await one.erased(newer.at)
  expect(index.has(key)).toBe(false)
})
