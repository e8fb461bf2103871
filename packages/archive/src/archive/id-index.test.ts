import { expect, it } from 'vitest'
import { SegmentDamaged } from '../segment/format.js'
import { encodeIndex } from '../segment/pass-index.js'
import { IdIndex } from './id-index.js'
import type { Hashes, IdIndexPages } from './id-index-pages.js'
import type { ManifestEntry } from './manifest.js'

const entry = (k: number) => ({ k, first_time: 10 * k + 1, last_time: 10 * k + 9 }) as ManifestEntry

const REMOVED = 9

/** What is on disk, in a map. */
function pagesInMap(onAdd: (segments: number) => void = () => undefined): IdIndexPages {
  const kept = new Map<number, Uint32Array>()
  const add = async (hashes: readonly Hashes[]) => {
    for (const { k, ids } of hashes) kept.set(k, ids)
    onAdd(hashes.length)
  }
  const segmentsOf = async (hash: number) => [...kept].filter(([, ids]) => ids.includes(hash)).map(([k]) => k)
  const forget = (k: number) => void kept.delete(k)
  return { add, segmentsOf, forget, [Symbol.asyncDispose]: async () => undefined } as unknown as IdIndexPages
}

/** Of an archive that may grow. */
function finderOf(
  archive: ManifestEntry[] | ConstructorParameters<typeof IdIndex>[0],
  disk?: { most: number; open: () => Promise<IdIndexPages> },
): IdIndex {
  const entries = Array.isArray(archive) ? archive : []
  const list = { all: async () => [...entries], entry: async (k: number) => entries[k], newest: async () => entries.at(-1) }
  const manifest = Array.isArray(archive) ? list : archive
  const key = (k: number) => ({ originator: 'alice', subagent: 'audit', id: `given-id-${k}` })
  const indexOf = async (k: number) =>
    k === REMOVED
      ? undefined
      : encodeIndex(k, [{ key: key(k), session_id: undefined, sequences: [k * 4_096], begins: true }], { parts: [`alice/part-${k}`] })
  return new IdIndex(manifest, indexOf, disk)
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

it('knows one that was missing among the others as soon as it is sealed', async () => {
  const sealed = new Map([0, 3, 4].map((k) => [k, entry(k)]))
  const all = async () => [...sealed.values()].sort((a, b) => a.k - b.k)
  const manifest = { all, entry: async (k: number) => sealed.get(k), newest: async () => (await all()).at(-1) }
  const finder = finderOf(manifest)
  await finder.prepare()
  expect(await finder.segmentsNaming('alice/part-1')).toEqual([])
  for (const k of [2, 5, 1]) {
    sealed.set(k, entry(k))
    expect(await finder.segmentsOf(`given-id-${k}`)).toEqual([k])
    expect(await finder.segmentsNaming(`alice/part-${k}`)).toEqual([k])
  }
  expect((await finder.segments()).segments.map(({ k }) => k)).toEqual([5, 4, 3, 2, 1, 0])
})

it('an attempt that failed is gone on with, and until then nobody takes what is known for all there is', async () => {
  const entries = Array.from({ length: 20 }, (_, k) => entry(k))
  const asked: number[] = []
  let broken = true
  const manifest = { all: async () => entries, entry: async (k: number) => entries[k], newest: async () => entries.at(-1) }
  const finder = new IdIndex(manifest, async (k) => {
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
  expect(await finder.segmentsNaming('alice/part-0')).toBeUndefined()
  await finder.prepare()
  expect([await finder.segmentsNaming('alice/part-0'), await finder.segmentsNaming('alice/part-2')]).toEqual([[0], []])
  finder.forget(0)
  expect([await finder.segmentsNaming('alice/part-0'), await finder.segmentsOf('given-id-0')]).toEqual([[], []])
  await finder.renew(entry(0))
  expect(await finder.segmentsOf('given-id-0')).toEqual([0])
  await finder.renew(entry(REMOVED))
  expect((await finder.segments()).segments.map(({ k }) => k)).toEqual([1, 0])
})

// Fails where it waits for it: nothing older than the newest segments would be found, nor said not to be there, for ever.
it('a segment whose index is damaged may speak of any id, and keeps nobody from finding the others', async () => {
  const entries = [entry(0), entry(1)]
  const manifest = { all: async () => entries, entry: async (k: number) => entries[k], newest: async () => entries.at(-1) }
  const finder = new IdIndex(manifest, async (k) => {
    if (k === 1) throw new SegmentDamaged('object 1.index cannot be read', 0)
    const key = { originator: 'alice', subagent: 'audit', id: 'given-id-0' }
    return encodeIndex(k, [{ key, session_id: undefined, sequences: [1], begins: true }], { parts: [] })
  })
  await finder.prepare()
  expect([finder.complete, finder.damaged]).toEqual([true, [1]])
  expect([await finder.segmentsOf('given-id-0'), await finder.segmentsOf('given-id-9')]).toEqual([[1, 0], [1]])
  expect(await finder.segments()).toEqual({ segments: [{ k: 0, first_time: 1, last_time: 9 }], complete: false })
  // What it may refer to is not removed.
  expect(await finder.segmentsNaming('alice/part-9')).toEqual([1])
})

it('one that was sealed since and could not be read is read when somebody asks again', async () => {
  const entries = [entry(0)]
  let broken = true
  const manifest = { all: async () => [...entries], entry: async (k: number) => entries[k], newest: async () => entries.at(-1) }
  const finder = new IdIndex(manifest, async (k) => {
    if (k === 1 && broken) throw new Error('nobody answers')
    return encodeIndex(k, [], {})
  })
  await finder.prepare()
  entries.push(entry(1))
  await expect(finder.segments()).rejects.toThrow('nobody answers')
  broken = false
  expect((await finder.segments()).segments.map(({ k }) => k)).toEqual([1, 0])
})

// Fails where nothing is paged: four bytes a pass stood in memory as long as the archive keeps it.
it('keeps in memory what the newest segments speak of, and finds the others all the same', async () => {
  const entries = Array.from({ length: 700 }, (_, k) => entry(k))
  let paged = 0
  const finder = finderOf(entries, { most: 32, open: async () => pagesInMap((segments) => (paged += segments)) })
  const inMemory = () => entries.length - paged
  await finder.prepare()
  expect(finder.trouble).toBeUndefined()
  expect(inMemory()).toBeLessThan(32 + 256 + 16)
  for (const k of [0, 1, 255, 256, 511, 512, 699]) expect(await finder.segmentsOf(`given-id-${k}`)).toEqual([k])
  expect(await finder.segmentsOf('given-id-700')).toEqual([])
  finder.forget(1)
  expect([await finder.segmentsOf('given-id-1'), await finder.segmentsOf('given-id-2')]).toEqual([[], [2]])
  await finder.renew(entry(2) as { k: number; first_time: number; last_time: number })
  expect([await finder.segmentsOf('given-id-2'), await finder.segmentsNaming('alice/part-3')]).toEqual([[2], [3]])
  for (let k = 700; k < 1_000; k++) entries.push(entry(k))
  await finder.follow()
  expect(inMemory()).toBeLessThan(32 + 256 + 16)
  expect([await finder.segmentsOf('given-id-2'), await finder.segmentsOf('given-id-999')]).toEqual([[2], [999]])
  await finder.close()
})

it('what cannot be written to disk stays in memory, and it says so', async () => {
  const entries = Array.from({ length: 300 }, (_, k) => entry(k))
  const finder = finderOf(entries, { most: 0, open: () => Promise.reject(new Error('no space left')) })
  await finder.prepare()
  expect(finder.trouble).toBe('hashes of ids stay in memory: no space left')
  expect(await finder.segmentsOf('given-id-5')).toEqual([5])
  await finder.close()
})

it('a segment that is removed while its hashes go to disk is not found there', async () => {
  const entries = Array.from({ length: 257 }, (_, k) => entry(k))
  const finder: IdIndex = finderOf(entries, { most: 0, open: async () => pagesInMap(() => finder.forget(3)) })
  await finder.prepare()
  expect([await finder.segmentsOf('given-id-3'), await finder.segmentsOf('given-id-4')]).toEqual([[], [4]])
  await finder.close()
})

// Fails where it forgets first: while the index is read, or where it cannot be, what it refers to would be removed beside it.
it('what a segment said before stands until it is read again, also where that fails', async () => {
  let answers: (index: Uint8Array | undefined) => void = () => undefined
  let reading: () => Promise<Uint8Array | undefined> = async () => encodeIndex(0, [], { parts: ['alice/part-0'] })
  const manifest = { all: async () => [entry(0)], entry: async () => undefined, newest: async () => entry(0) }
  const finder = new IdIndex(manifest, () => reading())
  await finder.prepare()
  reading = () => Promise.reject(new Error('nobody answers'))
  await expect(finder.renew(entry(0))).rejects.toThrow('nobody answers')
  expect(await finder.segmentsNaming('alice/part-0')).toEqual([0])
  reading = () => new Promise((done) => (answers = done))
  const renewed = finder.renew(entry(0))
  expect(await finder.segmentsNaming('alice/part-0')).toEqual([0])
  answers(encodeIndex(0, [], { parts: [] }))
  await renewed
  expect([await finder.segmentsNaming('alice/part-0'), (await finder.segments()).segments.length]).toEqual([[], 1])
})

// Fails where it takes the renewed one for the newest that was read.
it('those before one that was renewed before it was read are read all the same', async () => {
  const entries = [entry(0)]
  const finder = finderOf(entries)
  await finder.prepare()
  entries.push(entry(1), entry(2))
  await finder.renew(entry(2))
  expect((await finder.segments()).segments.map(({ k }) => k)).toEqual([2, 1, 0])
})
