import { expect, it } from 'vitest'
import { IdFinder } from './id-finder.js'
import type { ManifestEntry } from './manifest.js'
import { SegmentDamaged } from './segment.js'
import { encodeIndex } from './segment-index.js'

const entry = (k: number) => ({ k, first_time: 10 * k + 1, last_time: 10 * k + 9 }) as ManifestEntry

const REMOVED = 9

/** Of an archive that may grow. */
function finderOf(entries: ManifestEntry[]): IdFinder {
  const manifest = { all: async () => [...entries], entry: async (k: number) => entries[k], newest: async () => entries.at(-1) }
  const key = (k: number) => ({ originator: 'alice', subagent: 'audit', id: `given-id-${k}` })
  return new IdFinder(manifest, async (k) =>
    k === REMOVED
      ? undefined
      : encodeIndex(k, [{ key: key(k), session_id: undefined, sequences: [k * 4_096], begins: true }], { parts: [`alice/part-${k}`] }),
  )
}

it('says that it does not know all segments until their indexes were read', async () => {
  const finder = finderOf([entry(0), entry(1)])
  expect(await finder.segments()).toEqual({ segments: [], complete: false })
  await finder.prepare()
  const segments = [
    { k: 1, first_time: 11, last_time: 19 },
    { k: 0, first_time: 1, last_time: 9 },
  ]
  expect(await finder.segments()).toEqual({ segments, complete: true })
})

it('knows those that were sealed since, whoever asks first', async () => {
  const entries = [entry(0)]
  const finder = finderOf(entries)
  await finder.prepare()
  entries.push(entry(1))
  expect((await finder.segments()).segments.map(({ k }) => k)).toEqual([1, 0])
  entries.push(entry(2))
  expect(await finder.segmentsOf('given-id-2')).toEqual([2])
})

it('an attempt that failed is gone on with, and until then nobody takes what is known for all there is', async () => {
  const entries = Array.from({ length: 20 }, (_, k) => entry(k))
  const asked: number[] = []
  let broken = true
  const manifest = { all: async () => entries, entry: async (k: number) => entries[k], newest: async () => entries.at(-1) }
  const finder = new IdFinder(manifest, async (k) => {
    if (k === 19 && broken) throw new Error('nobody answers')
    asked.push(k)
    return encodeIndex(k, [], {})
  })
  await expect(finder.prepare()).rejects.toThrow('nobody answers')
  expect([finder.complete, await finder.segmentsOf('given-id-1')]).toEqual([false, undefined])
  broken = false
  await finder.prepare()
  expect([finder.complete, asked.length, new Set(asked).size]).toEqual([true, 20, 20])
})

it('knows which parts are spoken of, and forgets removed segments', async () => {
  const finder = finderOf([entry(0), entry(1)])
  expect(await finder.speaksOf('alice/part-0')).toBeUndefined()
  await finder.prepare()
  expect([await finder.speaksOf('alice/part-0'), await finder.speaksOf('alice/part-2')]).toEqual([true, false])
  finder.forget(0)
  expect([await finder.speaksOf('alice/part-0'), await finder.segmentsOf('given-id-0')]).toEqual([false, []])
  await finder.renew(entry(0))
  expect(await finder.segmentsOf('given-id-0')).toEqual([0])
  await finder.renew(entry(REMOVED))
  expect((await finder.segments()).segments.map(({ k }) => k)).toEqual([1, 0])
})

// Fails where it waits for it: nothing older than the newest segments would be found, nor said not to be there, for ever.
it('a segment whose index is damaged may speak of any id, and keeps nobody from finding the others', async () => {
  const entries = [entry(0), entry(1)]
  const manifest = { all: async () => entries, entry: async (k: number) => entries[k], newest: async () => entries.at(-1) }
  const finder = new IdFinder(manifest, async (k) => {
    if (k === 1) throw new SegmentDamaged('object 1.index cannot be read', 0)
    const key = { originator: 'alice', subagent: 'audit', id: 'given-id-0' }
    return encodeIndex(k, [{ key, session_id: undefined, sequences: [1], begins: true }], { parts: [] })
  })
  await finder.prepare()
  expect([finder.complete, finder.damaged]).toEqual([true, [1]])
  expect([await finder.segmentsOf('given-id-0'), await finder.segmentsOf('given-id-9')]).toEqual([[1, 0], [1]])
  expect(await finder.segments()).toEqual({ segments: [{ k: 0, first_time: 1, last_time: 9 }], complete: false })
  // What it may refer to is not removed.
  expect(await finder.speaksOf('alice/part-9')).toBe(true)
})

it('one that was sealed since and could not be read is read when somebody asks again', async () => {
  const entries = [entry(0)]
  let broken = true
  const manifest = { all: async () => [...entries], entry: async (k: number) => entries[k], newest: async () => entries.at(-1) }
  const finder = new IdFinder(manifest, async (k) => {
    if (k === 1 && broken) throw new Error('nobody answers')
    return encodeIndex(k, [], {})
  })
  await finder.prepare()
  entries.push(entry(1))
  await expect(finder.segments()).rejects.toThrow('nobody answers')
  broken = false
  expect((await finder.segments()).segments.map(({ k }) => k)).toEqual([1, 0])
})
