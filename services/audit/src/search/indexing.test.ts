import { pino } from 'pino'
import { expect, it } from 'vitest'
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
