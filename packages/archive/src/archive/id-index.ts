import { SegmentDamaged } from '../segment/format.js'
import { readIndexIds } from '../segment/pass-index.js'
import { type Hashes, IdIndexPages, lowerBound, SEGMENTS_PER_RUN } from './id-index-pages.js'
import { GapTracker, type Manifest } from './manifest.js'

const CONCURRENCY = 16
/** Of so many segments the hashes stay in memory, 8 MB where each speaks of a thousand passes; those of older ones go to disk, a run at a time. */
const MAX_IN_MEMORY = 2_048
const NO_HASHES = new Uint32Array()

interface TimeSpan {
  first_time: number
  last_time: number
}

type SegmentTimes = TimeSpan & { k: number }

interface IndexedSegment extends TimeSpan {
  /** Hashes of the ids that it speaks of, ascending: 4 bytes a pass. `paged`: they are on disk. `any`: its index is damaged, and it may speak of each. */
  ids: Uint32Array | 'paged' | 'any'
  /** The same of the parts that it refers to; undefined: it does not say. */
  parts: Uint32Array | undefined
}

/**
 * In which segments an id stands, however many there are: of each segment's index the hashes of its ids are kept. Segments that are sealed
 * later are read when somebody asks, or by `follow`. What is kept in memory does not grow with the archive but by a line a segment.
 */
export class IdIndex {
  private readonly known = new Map<number, IndexedSegment>()
  private newest = -1
  private readonly missing = new GapTracker()
  private ready = false
  private reading: Promise<void> | undefined
  /** A look for what was sealed since that is under way, and the next one, which begins after it. */
  private looking: Promise<void> | undefined
  private nextLook: Promise<void> | undefined
  private pages: IdIndexPages | undefined
  /** How many segments have their hashes in memory. */
  private inMemory = 0
  private paging: Promise<void> | undefined
  private closed = false
  /** Why hashes are not on disk that should be. */
  trouble: string | undefined

  constructor(
    private readonly manifest: Pick<Manifest, 'all' | 'entry' | 'newest'>,
    private readonly indexOf: (k: number) => Promise<Uint8Array | undefined>,
    private readonly disk: { most: number; open: () => Promise<IdIndexPages> } = { most: MAX_IN_MEMORY, open: () => IdIndexPages.open() },
  ) {}

  /** Whether the indexes of all segments that were sealed at the start are read. */
  get complete(): boolean {
    return this.ready
  }

  /** Segments whose indexes are damaged. */
  get damaged(): number[] {
    return [...this.known].filter(([, { ids }]) => ids === 'any').map(([k]) => k)
  }

  isDamaged(k: number): boolean {
    return this.known.get(k)?.ids === 'any'
  }

  /** Reads the indexes of all segments that are sealed by now; what an attempt that failed has read is not read again. */
  prepare(): Promise<void> {
    this.reading ??= this.read().finally(() => {
      this.reading = undefined
    })
    return this.reading
  }

  /** The segments that may speak of an id, newest first. Undefined: not all were read yet. */
  async segmentsOf(id: string): Promise<number[] | undefined> {
    if (!this.ready) return undefined
    await this.look()
    const hash = hashOf(id)
    const found: number[] = []
    for (const [k, { ids }] of this.known) if (ids === 'any' || (ids !== 'paged' && hasHash(ids, hash))) found.push(k)
    // What was paged meanwhile is found twice.
    const paged = (await this.pages?.segmentsOf(hash)) ?? []
    return [...new Set([...found, ...paged])].sort((a, b) => b - a)
  }

  /** Reads the indexes of what was sealed since, so that who asks later need not wait for it. */
  async follow(): Promise<void> {
    if (this.ready) await this.readNewer()
  }

  /** It finds no more what is on disk. */
  async close(): Promise<void> {
    this.closed = true
    await this.paging
    await this.pages?.[Symbol.asyncDispose]()
    this.pages = undefined
  }

  /** Segments, newest first, with the server's times of their first and last messages. Not `complete`: not all were read yet, or could be. */
  async segments(): Promise<{ segments: SegmentTimes[]; complete: boolean }> {
    if (this.ready) await this.readNewer()
    const read = [...this.known].filter(([, { ids }]) => ids !== 'any')
    const segments = read.map(([k, { first_time, last_time }]) => ({ k, first_time, last_time })).sort((a, b) => b.k - a.k)
    return { segments, complete: this.ready && read.length === this.known.size }
  }

  /** The segments that may refer to a part. Undefined: not all were read yet. */
  async segmentsNaming(part: string): Promise<number[] | undefined> {
    if (!this.ready) return undefined
    await this.readNewer()
    const hash = hashOf(part)
    return [...this.known].flatMap(([k, { parts }]) => (!parts || hasHash(parts, hash) ? [k] : []))
  }

  /** A segment was removed, or its index is another. */
  forget(k: number): void {
    const known = this.known.get(k)
    this.known.delete(k)
    if (known?.ids === 'paged') this.pages?.forget(k)
    else if (known && known.ids !== 'any') this.inMemory--
  }

  /** Reads the index of one segment again. Until that is read what it said before stands: else what it refers to might be removed meanwhile. */
  renew(entry: SegmentTimes): Promise<void> {
    return this.know(entry)
  }

  private async read(): Promise<void> {
    if (this.ready) return await this.readNewer()
    const entries = await this.manifest.all()
    for (let at = 0; at < entries.length; at += CONCURRENCY) {
      const some = entries.slice(at, at + CONCURRENCY).filter(({ k }) => !this.known.has(k))
      await Promise.all(some.map((entry) => this.note(entry)))
    }
    this.missing.take(entries)
    this.ready = true
  }

  /** Reads what was sealed until now. All who ask while a look is under way share the next one: many ask at once. */
  private look(): Promise<void> {
    this.nextLook ??= Promise.resolve(this.looking).then(() => {
      this.nextLook = undefined
      const look = this.readNewer()
      this.looking = look.catch(() => undefined)
      return look
    })
    return this.nextLook
  }

  private async readNewer(): Promise<void> {
    const newest = await this.manifest.newest()
    for await (const entry of this.missing.filled(this.manifest)) await this.note(entry)
    for (let k = this.newest + 1; newest && k <= newest.k; k++) {
      const entry = await this.manifest.entry(k)
      if (entry) await this.note(entry)
      else this.missing.add(k)
    }
  }

  private async note(entry: SegmentTimes): Promise<void> {
    await this.know(entry)
    this.newest = Math.max(this.newest, entry.k)
  }

  private async know({ k, first_time, last_time }: SegmentTimes): Promise<void> {
    const told = await this.toldBy(k)
    // Two may have read it at once.
    this.forget(k)
    if (!told) return
    this.known.set(k, { first_time, last_time, ...told })
    if (told.ids === 'any' || ++this.inMemory < this.disk.most + SEGMENTS_PER_RUN || this.closed) return
    this.paging ??= this.page().finally(() => {
      this.paging = undefined
    })
    await this.paging
  }

  /** The hashes of the oldest segments go to disk; where they cannot, they stay. */
  private async page(): Promise<void> {
    const hashes: Hashes[] = []
    for (const [k, { ids }] of this.known) if (typeof ids === 'object') hashes.push({ k, ids })
    const oldest = hashes.sort((a, b) => a.k - b.k).slice(0, SEGMENTS_PER_RUN)
    try {
      this.pages ??= await this.disk.open()
      await this.pages.add(oldest)
      this.trouble = undefined
    } catch (error) {
      this.trouble = `hashes of ids stay in memory: ${error instanceof Error ? error.message : String(error)}`
      return
    }
    for (const { k, ids } of oldest) {
      const known = this.known.get(k)
      // It may have been removed, or be another one, meanwhile.
      if (known?.ids !== ids) this.pages.forget(k)
      else {
        known.ids = 'paged'
        this.inMemory--
      }
    }
  }

  /** One that is damaged stays so: to wait for it would keep all the others from being found. Undefined: it was removed. */
  private async toldBy(k: number): Promise<Pick<IndexedSegment, 'ids' | 'parts'> | undefined> {
    try {
      const index = await this.indexOf(k)
      if (!index) return undefined
      const { ids, parts } = readIndexIds(index)
      return { ids: hashesOf(ids), parts: parts && hashesOf(parts) }
    } catch (error) {
      if (error instanceof SegmentDamaged) return { ids: 'any', parts: undefined }
      throw error
    }
  }
}

/** Ascending. */
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
