import { SegmentDamaged } from '../segment/format.js'
import { readIndexIds } from '../segment/pass-index.js'
import { type Hashes, IdIndexPages, lowerBound, SEGMENTS_PER_RUN } from './id-index-pages.js'
import { GapTracker, type Manifest } from './manifest.js'

const CONCURRENCY = 16
/** Number of segments whose hashes stay in memory: 8 MB if each names a thousand passes. Hashes of older segments go to disk, one run at a time. */
const MAX_IN_MEMORY = 2_048
const NO_HASHES = new Uint32Array()

interface TimeSpan {
  first_time: number
  last_time: number
}

type SegmentTimes = TimeSpan & { k: number }

interface IndexedSegment extends TimeSpan {
  /**
   * Sorted hashes of the ids in the segment, 4 bytes for each pass. `paged` if they are on disk; `any` if its index is damaged, so that it may name
   * every id.
   */
  ids: Uint32Array | 'paged' | 'any'
  /** Sorted hashes of the parts that the segment refers to; `undefined` if its index does not list them. */
  parts: Uint32Array | undefined
}

/**
 * Finds the segments that name an id in an archive of any size, by keeping the hashes of all ids in each segment's index. Segments sealed later are
 * read on the next query, or by `follow`. Older hashes are moved to disk, so that memory grows by only a small entry for each segment.
 */
export class IdIndex {
  readonly #manifest: Pick<Manifest, 'all' | 'entry' | 'newest'>
  readonly #indexOf: (k: number) => Promise<Uint8Array | undefined>
  readonly #disk: { most: number; open: () => Promise<IdIndexPages> }
  readonly #known = new Map<number, IndexedSegment>()
  #newest = -1
  readonly #missing = new GapTracker()
  #ready = false
  #reading: Promise<void> | undefined
  /** Reading of newly sealed segments in progress, and the next one, which starts after it. */
  #looking: Promise<void> | undefined
  #nextLook: Promise<void> | undefined
  #pages: IdIndexPages | undefined
  /** Number of segments whose hashes are in memory. */
  #inMemory = 0
  #paging: Promise<void> | undefined
  #closed = false
  /** Reason why hashes could not be moved to disk. */
  trouble: string | undefined

  constructor(
    manifest: Pick<Manifest, 'all' | 'entry' | 'newest'>,
    indexOf: (k: number) => Promise<Uint8Array | undefined>,
    disk: { most: number; open: () => Promise<IdIndexPages> } = { most: MAX_IN_MEMORY, open: () => IdIndexPages.open() },
  ) {
    this.#manifest = manifest
    this.#indexOf = indexOf
    this.#disk = disk
  }

  /** True once the indexes of all segments that were sealed at the start have been read. */
  get complete(): boolean {
    return this.#ready
  }

  /** Number of segments whose indexes have been read, from the oldest. */
  get read(): number {
    return this.#newest + 1
  }

  /** Segments whose indexes are damaged. */
  get damaged(): number[] {
    return [...this.#known].filter(([, { ids }]) => ids === 'any').map(([k]) => k)
  }

  isDamaged(k: number): boolean {
    return this.#known.get(k)?.ids === 'any'
  }

  /** Reads the indexes of all segments sealed by now. After a failure, the next call continues with the segments that were not read. */
  prepare(): Promise<void> {
    this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined
    })
    return this.#reading
  }

  /** Returns the segments that may name an id, newest first, or `undefined` if not all were read yet. */
  async segmentsOf(id: string): Promise<number[] | undefined> {
    if (!this.#ready) return undefined
    await this.#look()
    const hash = hashOf(id)
    const found: number[] = []
    for (const [k, { ids }] of this.#known) if (ids === 'any' || (ids !== 'paged' && hasHash(ids, hash))) found.push(k)
    // A segment that was paged in the meantime is found twice.
    const paged = (await this.#pages?.segmentsOf(hash)) ?? []
    return [...new Set([...found, ...paged])].sort((a, b) => b - a)
  }

  /** Reads the indexes of newly sealed segments in advance, so that later queries need not wait for them. */
  async follow(): Promise<void> {
    if (this.#ready) await this.#readNewer()
  }

  /** Closes the files. Hashes on disk are no longer found. */
  async close(): Promise<void> {
    this.#closed = true
    await this.#paging
    await this.#pages?.[Symbol.asyncDispose]()
    this.#pages = undefined
  }

  /** Returns the segments, newest first, with the server times of their first and last messages. `complete` is false if not all could be read yet. */
  async segments(): Promise<{ segments: SegmentTimes[]; complete: boolean }> {
    if (this.#ready) await this.#readNewer()
    const read = [...this.#known].filter(([, { ids }]) => ids !== 'any')
    const segments = read.map(([k, { first_time, last_time }]) => ({ k, first_time, last_time })).sort((a, b) => b.k - a.k)
    return { segments, complete: this.#ready && read.length === this.#known.size }
  }

  /** Returns the segments that may refer to a part, or `undefined` if not all were read yet. */
  async segmentsNaming(part: string): Promise<number[] | undefined> {
    if (!this.#ready) return undefined
    await this.#readNewer()
    const hash = hashOf(part)
    return [...this.#known].flatMap(([k, { parts }]) => (!parts || hasHash(parts, hash) ? [k] : []))
  }

  /** Forgets a segment that was removed or whose index was replaced. */
  forget(k: number): void {
    const known = this.#known.get(k)
    this.#known.delete(k)
    if (known?.ids === 'paged') this.#pages?.forget(k)
    else if (known && known.ids !== 'any') this.#inMemory--
  }

  /**
   * Reads the index of one segment again. The previous content stays in use until then; otherwise something that the segment refers to could be
   * removed meanwhile.
   */
  renew(entry: SegmentTimes): Promise<void> {
    return this.#know(entry)
  }

  async #read(): Promise<void> {
    if (this.#ready) return await this.#readNewer()
    const entries = await this.#manifest.all()
    for (let at = 0; at < entries.length; at += CONCURRENCY) {
      const some = entries.slice(at, at + CONCURRENCY).filter(({ k }) => !this.#known.has(k))
      await Promise.all(some.map((entry) => this.#note(entry)))
    }
    this.#missing.take(entries)
    this.#ready = true
  }

  /** Reads newly sealed segments. Queries that arrive during a reading share the next one, since many may arrive at once. */
  #look(): Promise<void> {
    this.#nextLook ??= Promise.resolve(this.#looking).then(() => {
      this.#nextLook = undefined
      const look = this.#readNewer()
      this.#looking = look.catch(() => undefined)
      return look
    })
    return this.#nextLook
  }

  async #readNewer(): Promise<void> {
    const newest = await this.#manifest.newest()
    for await (const entry of this.#missing.filled(this.#manifest)) await this.#note(entry)
    for (let k = this.#newest + 1; newest && k <= newest.k; k++) {
      const entry = await this.#manifest.entry(k)
      if (entry) await this.#note(entry)
      else this.#missing.add(k)
    }
  }

  async #note(entry: SegmentTimes): Promise<void> {
    await this.#know(entry)
    this.#newest = Math.max(this.#newest, entry.k)
  }

  async #know({ k, first_time, last_time }: SegmentTimes): Promise<void> {
    const hashes = await this.#readHashes(k)
    // Two callers may have read it concurrently.
    this.forget(k)
    if (!hashes) return
    this.#known.set(k, { first_time, last_time, ...hashes })
    if (hashes.ids === 'any' || ++this.#inMemory < this.#disk.most + SEGMENTS_PER_RUN || this.#closed) return
    this.#paging ??= this.#page().finally(() => {
      this.#paging = undefined
    })
    await this.#paging
  }

  /** Moves the hashes of the oldest segments to disk. If that fails, they stay in memory. */
  async #page(): Promise<void> {
    const hashes: Hashes[] = []
    for (const [k, { ids }] of this.#known) if (typeof ids === 'object') hashes.push({ k, ids })
    const oldest = hashes.sort((a, b) => a.k - b.k).slice(0, SEGMENTS_PER_RUN)
    try {
      this.#pages ??= await this.#disk.open()
      await this.#pages.add(oldest)
      this.trouble = undefined
    } catch (error) {
      this.trouble = `hashes of ids stay in memory: ${error instanceof Error ? error.message : String(error)}`
      return
    }
    for (const { k, ids } of oldest) {
      const known = this.#known.get(k)
      // The segment may have been removed or replaced in the meantime.
      if (known?.ids !== ids) this.#pages.forget(k)
      else {
        known.ids = 'paged'
        this.#inMemory--
      }
    }
  }

  /**
   * Reads the hashes of one segment, or returns `undefined` if it was removed. A damaged index is recorded as such: retrying it would keep all others
   * from being found.
   */
  async #readHashes(k: number): Promise<Pick<IndexedSegment, 'ids' | 'parts'> | undefined> {
    try {
      const index = await this.#indexOf(k)
      if (!index) return undefined
      const { ids, parts } = readIndexIds(index)
      return { ids: hashesOf(ids), parts: parts && hashesOf(parts) }
    } catch (error) {
      if (error instanceof SegmentDamaged) return { ids: 'any', parts: undefined }
      throw error
    }
  }
}

/** Returns the hashes of texts in ascending order. */
export function hashesOf(texts: readonly string[]): Uint32Array {
  return texts.length === 0 ? NO_HASHES : Uint32Array.from(texts, hashOf).sort()
}

export function hashOf(id: string): number {
  let hash = 0x811c9dc5
  for (let i = 0; i < id.length; i++) hash = Math.imul(hash ^ id.charCodeAt(i), 0x01000193)
  return (hash ^ (hash >>> 15)) >>> 0
}

export function hasHash(sorted: Uint32Array, wanted: number): boolean {
  return sorted[lowerBound(sorted, wanted)] === wanted
}
