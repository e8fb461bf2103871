import type { Manifest } from './manifest.js'
import { SegmentDamaged } from './segment.js'
import { decodeIndex, partsIn } from './segment-index.js'

const AT_ONCE = 16

interface Span {
  first_time: number
  last_time: number
}

type Spanned = Span & { k: number }

interface Known extends Span {
  /** Hashes of the ids that it speaks of, ascending: 4 bytes a pass. `any`: its index is damaged, and it may speak of each. */
  ids: Uint32Array | 'any'
  /** The same of the parts that it refers to; undefined: it does not say. */
  parts: Uint32Array | undefined
}

/**
 * In which segments an id stands, however many there are: of each segment's index the hashes of its ids are kept. Segments that are sealed
 * later are read when somebody asks.
 */
export class IdFinder {
  private readonly known = new Map<number, Known>()
  private newest = -1
  private ready = false
  private reading: Promise<void> | undefined

  constructor(
    private readonly manifest: Pick<Manifest, 'all' | 'entry' | 'newest'>,
    private readonly indexOf: (k: number) => Promise<Uint8Array | undefined>,
  ) {}

  /** Whether the indexes of all segments that were sealed at the start are read. */
  get complete(): boolean {
    return this.ready
  }

  /** Segments whose indexes are damaged. */
  get damaged(): number[] {
    return [...this.known].filter(([, { ids }]) => ids === 'any').map(([k]) => k)
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
    await this.readNewer()
    const hash = hashOf(id)
    const found: number[] = []
    for (const [k, { ids }] of this.known) if (ids === 'any' || has(ids, hash)) found.push(k)
    return found.sort((a, b) => b - a)
  }

  /** Segments, newest first, with the server's times of their first and last messages. Not `complete`: not all were read yet, or could be. */
  async segments(): Promise<{ segments: Spanned[]; complete: boolean }> {
    if (this.ready) await this.readNewer()
    const read = [...this.known].filter(([, { ids }]) => ids !== 'any')
    const segments = read.map(([k, { first_time, last_time }]) => ({ k, first_time, last_time })).sort((a, b) => b.k - a.k)
    return { segments, complete: this.ready && read.length === this.known.size }
  }

  /** Whether a segment that is kept may refer to a part. Undefined: not all were read yet. */
  async speaksOf(part: string): Promise<boolean | undefined> {
    if (!this.ready) return undefined
    await this.readNewer()
    const hash = hashOf(part)
    for (const { parts } of this.known.values()) if (!parts || has(parts, hash)) return true
    return false
  }

  /** A segment was removed, or its index is another. */
  forget(k: number): void {
    this.known.delete(k)
  }

  /** Reads the index of one segment again. */
  async renew(entry: Spanned): Promise<void> {
    this.known.delete(entry.k)
    await this.note(entry)
  }

  private async read(): Promise<void> {
    if (this.ready) return await this.readNewer()
    const entries = await this.manifest.all()
    for (let at = 0; at < entries.length; at += AT_ONCE) {
      const some = entries.slice(at, at + AT_ONCE).filter(({ k }) => !this.known.has(k))
      await Promise.all(some.map((entry) => this.note(entry)))
    }
    this.ready = true
  }

  private async readNewer(): Promise<void> {
    const newest = await this.manifest.newest()
    for (let k = this.newest + 1; newest && k <= newest.k; k++) {
      const entry = await this.manifest.entry(k)
      if (entry) await this.note(entry)
    }
  }

  private async note({ k, first_time, last_time }: Spanned): Promise<void> {
    const told = await this.toldBy(k)
    this.newest = Math.max(this.newest, k)
    if (told) this.known.set(k, { first_time, last_time, ...told })
  }

  /** One that is damaged stays so: to wait for it would keep all the others from being found. Undefined: it was removed. */
  private async toldBy(k: number): Promise<Pick<Known, 'ids' | 'parts'> | undefined> {
    try {
      const index = await this.indexOf(k)
      if (!index) return undefined
      const parts = partsIn(index)
      return { ids: hashesOf(decodeIndex(index).map(({ key }) => key.id)), parts: parts && hashesOf(parts) }
    } catch (error) {
      if (error instanceof SegmentDamaged) return { ids: 'any', parts: undefined }
      throw error
    }
  }
}

function hashesOf(texts: readonly string[]): Uint32Array {
  return Uint32Array.from(texts, hashOf).sort()
}

function hashOf(id: string): number {
  let hash = 0x811c9dc5
  for (let i = 0; i < id.length; i++) hash = Math.imul(hash ^ id.charCodeAt(i), 0x01000193)
  return (hash ^ (hash >>> 15)) >>> 0
}

function has(sorted: Uint32Array, wanted: number): boolean {
  let low = 0
  let high = sorted.length - 1
  while (low <= high) {
    const middle = (low + high) >> 1
    const found = sorted[middle] ?? 0
    if (found === wanted) return true
    if (found < wanted) low = middle + 1
    else high = middle - 1
  }
  return false
}
