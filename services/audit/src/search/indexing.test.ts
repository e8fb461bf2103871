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
