import { mkdtemp, open, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { SEGMENT_SIZE } from '../segment/format.js'

/** Number of segments sorted into one run: as many as one byte can distinguish. */
export const SEGMENTS_PER_RUN = 256
/** Size of an entry: a 4-byte hash, and one byte for the segment within the run. */
const ENTRY_BYTES = 5
/** Number of entries in a page. Only the first hash of each page is kept in memory; a page is read at once. */
const PAGE_ENTRIES = 1_024
const PAGE_BYTES = PAGE_ENTRIES * ENTRY_BYTES
/** Bytes reserved in the file for each run, enough for the longest possible one. The rest stays unwritten. */
const PLACE_BYTES = SEGMENTS_PER_RUN * SEGMENT_SIZE * ENTRY_BYTES
/** Number of hash ranges by which a run is sorted. Each takes a few milliseconds at most. */
const HASH_RANGES = 16
const HASH_RANGE_SIZE = 2 ** 32 / HASH_RANGES

/** Hashes of a segment's ids, in ascending order. */
export interface Hashes {
  k: number
  ids: Uint32Array
}

/** The file operations used here. */
export interface PageFile {
  write(bytes: Uint8Array, offset: number, length: number, position: number): Promise<{ bytesWritten: number }>
  read(bytes: Uint8Array, offset: number, length: number, position: number): Promise<{ bytesRead: number }>
  close(): Promise<void>
}

interface Run {
  place: number
  /** Segments by their number in the run; `undefined` if forgotten. */
  segments: (number | undefined)[]
  /** Hash of each page's first entry. */
  fences: number[]
  size: number
}

/**
 * Finds the segments with a hash in a file on disk, since hashes of old segments are rarely needed. Memory holds one number for each 1,024 entries.
 * The file belongs to this process alone and is unlinked once opened, so that it disappears with the process. The next start rebuilds it from the
 * indexes.
 */
export class IdIndexPages implements AsyncDisposable {
  readonly #file: PageFile
  readonly #runs = new Set<Run>()
  readonly #free: number[] = []
  #places = 0

  constructor(file: PageFile) {
    this.#file = file
  }

  static async open(): Promise<IdIndexPages> {
    const folder = await mkdtemp(join(tmpdir(), 'passover-ids-'))
    try {
      return new IdIndexPages(await open(join(folder, 'pages'), 'wx+', 0o600))
    } finally {
      await rm(folder, { recursive: true, force: true })
    }
  }

  /** Adds at most SEGMENTS_PER_RUN segments. Once it resolves, they are found here. */
  async add(hashes: readonly Hashes[]): Promise<void> {
    const place = this.#free.pop() ?? this.#places++
    const run: Run = { place, segments: hashes.map(({ k }) => k), fences: [], size: 0 }
    try {
      for (let range = 0; range < HASH_RANGES; range++) await this.#append(run, sortedIn(hashes, range))
    } catch (error) {
      this.#free.push(place)
      throw error
    }
    this.#runs.add(run)
  }

  /** Returns the segments with this hash in arbitrary order. */
  async segmentsOf(hash: number): Promise<number[]> {
    return (await Promise.all([...this.#runs].map((run) => this.#inRun(run, hash)))).flat()
  }

  forget(k: number): void {
    for (const run of this.#runs) {
      const at = run.segments.indexOf(k)
      if (at < 0) continue
      run.segments[at] = undefined
      if (run.segments.some((one) => one !== undefined)) continue
      this.#runs.delete(run)
      this.#free.push(run.place)
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#file.close()
  }

  async #append(run: Run, sorted: Float64Array): Promise<void> {
    const bytes = Buffer.allocUnsafe(sorted.length * ENTRY_BYTES)
    let at = 0
    for (const [n, value] of sorted.entries()) {
      const hash = Math.floor(value / SEGMENTS_PER_RUN)
      if ((run.size + n) % PAGE_ENTRIES === 0) run.fences.push(hash)
      at = bytes.writeUInt32BE(hash, at)
      at = bytes.writeUInt8(value % SEGMENTS_PER_RUN, at)
    }
    const { bytesWritten } = await this.#file.write(bytes, 0, bytes.length, run.place * PLACE_BYTES + run.size * ENTRY_BYTES)
    if (bytesWritten < bytes.length) throw new Error(`only ${bytesWritten} of ${bytes.length} bytes of hashes were written`)
    run.size += sorted.length
  }

  async #inRun({ place, segments, fences, size }: Run, hash: number): Promise<number[]> {
    const last = lowerBound(fences, hash + 1) - 1
    if (last < 0) return []
    // The same hash may also be at the end of the previous page.
    const from = Math.max(0, lowerBound(fences, hash) - 1) * PAGE_BYTES
    const bytes = Buffer.alloc(Math.min((last + 1) * PAGE_BYTES, size * ENTRY_BYTES) - from)
    const { bytesRead } = await this.#file.read(bytes, 0, bytes.length, place * PLACE_BYTES + from)
    if (bytesRead < bytes.length) throw new Error(`only ${bytesRead} of ${bytes.length} bytes of hashes could be read`)
    const found: number[] = []
    for (let at = 0; at < bytes.length; at += ENTRY_BYTES) {
      const k = bytes.readUInt32BE(at) === hash ? segments[bytes.readUInt8(at + 4)] : undefined
      if (k !== undefined) found.push(k)
    }
    return found
  }
}

/** Returns the entries whose hashes are in one range, sorted. */
function sortedIn(hashes: readonly Hashes[], range: number): Float64Array {
  const parts = hashes.map(({ ids }) =>
    ids.subarray(lowerBound(ids, range * HASH_RANGE_SIZE), lowerBound(ids, (range + 1) * HASH_RANGE_SIZE)),
  )
  const sorted = new Float64Array(parts.reduce((sum, { length }) => sum + length, 0))
  let at = 0
  for (const [n, ids] of parts.entries()) for (const hash of ids) sorted[at++] = hash * SEGMENTS_PER_RUN + n
  return sorted.sort()
}

/** Returns the position of the first value that is not less than `wanted`. */
export function lowerBound(sorted: ArrayLike<number>, wanted: number): number {
  let low = 0
  let high = sorted.length
  while (low < high) {
    const middle = (low + high) >> 1
    if ((sorted[middle] ?? 0) < wanted) low = middle + 1
    else high = middle
  }
  return low
}
