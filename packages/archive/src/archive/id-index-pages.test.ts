import { afterEach, beforeEach, expect, it } from 'vitest'
import { IdIndexPages, lowerBound, type PageFile } from './id-index-pages.js'

/** Room for two runs. */
const FILE_BYTES = 12 * 1024 * 1024
/** Positions below this belong to the first run. */
const FIRST_RUN_BYTES = 5 * 1024 * 1024
/** Highest position that was written to. */
let highest = 0

function memoryFile(): PageFile {
  const bytes = Buffer.alloc(FILE_BYTES)
  highest = 0
  return {
    write: async (from, offset, length, position) => {
      highest = Math.max(highest, position)
      bytes.set(from.subarray(offset, offset + length), position)
      return { bytesWritten: length }
    },
    read: async (into, offset, length, position) => {
      into.set(bytes.subarray(position, position + length), offset)
      return { bytesRead: length }
    },
    close: async () => undefined,
  }
}

let file: PageFile
let pages: IdIndexPages
beforeEach(() => {
  file = memoryFile()
  pages = new IdIndexPages(file)
})
afterEach(() => pages[Symbol.asyncDispose]())

const hashes = (k: number, ids: number[]) => ({ k, ids: Uint32Array.from(ids).sort() })
const found = async (hash: number) => (await pages.segmentsOf(hash)).sort((a, b) => a - b)
const TOP = 2 ** 32 - 1

it('finds each hash in the segments that it was given with, the least and the greatest too', async () => {
  await pages.add([hashes(7, [0, 5, TOP]), hashes(900, [5, 6]), hashes(901, [])])
  await pages.add([hashes(3, [6, 2 ** 28, 2 ** 28 - 1])])
  expect(await Promise.all([0, 5, 6, TOP, 2 ** 28, 2 ** 28 - 1, 4].map(found))).toEqual([[7], [7, 900], [3, 900], [7], [3], [3], []])
})

// Fails where one page is read for a hash: the rest of its segments stand at the end of the page before, or at the beginning of the one after.
it('finds all segments of a hash whose entries are cut by the end of a page', async () => {
  const ids = (k: number) => [...Array.from({ length: 40 }, (_, n) => n * 1_000 + k), 19_500]
  await pages.add(Array.from({ length: 200 }, (_, k) => hashes(k, ids(k))))
  expect(await found(19_500)).toEqual(Array.from({ length: 200 }, (_, k) => k))
  for (const hash of [0, 199, 19_100, 39_199]) expect(await found(hash)).toEqual([hash % 1_000])
  expect(await found(19_501)).toEqual([])
})

it('what is forgotten is not found, and its place is another one’s when all of a run is', async () => {
  await pages.add([hashes(1, [10]), hashes(2, [10, 20])])
  pages.forget(1)
  pages.forget(4)
  expect(await found(10)).toEqual([2])
  pages.forget(2)
  await pages.add([hashes(3, [10])])
  expect([await found(10), await found(20)]).toEqual([[3], []])
  expect(highest).toBeLessThan(FIRST_RUN_BYTES)
})

it('gives the place back of what could not be written', async () => {
  const { write } = file
  file.write = async () => {
    throw new Error('no space left')
  }
  await expect(pages.add([hashes(1, [10])])).rejects.toThrow('no space left')
  file.write = write
  await pages.add([hashes(2, [10])])
  expect(await found(10)).toEqual([2])
  expect(highest).toBeLessThan(FIRST_RUN_BYTES)
})

// Fails where it is not looked at: zeros would be taken for hashes, and what stands in those segments not be found.
it('does not take a part of what it wanted for all of it', async () => {
  const { write, read } = file
  file.write = async () => ({ bytesWritten: 3 })
  await expect(pages.add([hashes(1, [10])])).rejects.toThrow('only 3 of 5 bytes of hashes were written')
  file.write = write
  await pages.add([hashes(2, [10])])
  file.read = async () => ({ bytesRead: 0 })
  await expect(pages.segmentsOf(10)).rejects.toThrow('only 0 of 5 bytes of hashes could be read')
  file.read = read
  expect(await found(10)).toEqual([2])
})

it('the place of the first that is not less', () => {
  expect([0, 1, 2, 3, 9].map((wanted) => lowerBound([1, 2, 2, 5], wanted))).toEqual([0, 0, 1, 3, 4])
})
