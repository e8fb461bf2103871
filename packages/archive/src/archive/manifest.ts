import type { Bus, Entry, ObjectStore, Table } from '@passover/bus'
import { z } from 'zod'
import { SEGMENT_SIZE, segmentName } from '../segment/format.js'

/** KV bucket of manifest entries, and object bucket of segments and their indexes. */
export const ARCHIVE_BUCKET = 'archive'

const hex32 = z.string().regex(/^[0-9a-f]{64}$/)

/** A segment that the archive keeps no longer: its entry alone stays, and what of it still stands in the stream (versions, custody). */
export const removedSegment = z.object({
  why: z.literal('retention'),
  /** Server ms, and how many days the policy in force kept then. */
  at: z.number(),
  retention_days: z.number().positive(),
  /** An object of unpacked frames; absent: nothing stands there. */
  kept: z.object({ object: z.string(), sha256: hex32 }).optional(),
})
export type RemovedSegment = z.infer<typeof removedSegment>

/**
 * What is known of a sealed segment. There is one entry a segment, ever: who creates it first has sealed it. Later only its object may become
 * another (entries were erased), with the same chain, or it is removed.
 */
export const manifestEntry = z.object({
  v: z.literal(1),
  k: z.int().min(0),
  /** Names of the objects in the archive bucket. */
  object: z.string(),
  index: z.string(),
  compression: z.enum(['gzip', 'none']),
  /** First and last sequence and time (ms) found in it; 0 when every message had been deleted. */
  first: z.int().min(0),
  last: z.int().min(0),
  first_time: z.number(),
  last_time: z.number(),
  count: z.int().min(0),
  chain_before: hex32,
  chain_after: hex32,
  /** Of the object as stored, and of its frames. */
  size: z.int().min(0),
  raw_size: z.int().min(0),
  sha256: hex32,
  /** Of its index. */
  index_sha256: hex32.optional(),
  /** Where a restarting projector reads on: nothing before it is missing in KV (I4 of services/audit/src/index.ts). */
  resume: z.int().positive(),
  removed: removedSegment.optional(),
})
export type ManifestEntry = z.infer<typeof manifestEntry>

const headEntry = z.object({ v: z.literal(1), head: z.int().min(0) })
/** The projection is being made anew from this sequence on; until it is done a restart begins there again. */
const rebuildEntry = z.object({ v: z.literal(1), rebuild_from: z.int().positive() })
/** What the audit's retention keeps beside the list: of no meaning without it, so it goes with it. */
const retentionEntry = z.object({ v: z.literal(1), retention: z.unknown() })
const tableEntry = z.union([manifestEntry, headEntry, rebuildEntry, retentionEntry])

const HEAD = 'head'
/** Reads until replicas have what was written just now. */
const MAX_ATTEMPTS = 20
const REBUILD = 'rebuild'

function keyOf(k: number): string {
  return `segment.${segmentName(k)}`
}

/** The list of sealed segments, by compare-and-set. */
export class Manifest {
  private constructor(private readonly table: Table<z.infer<typeof tableEntry>>) {}

  static async open(bus: Bus): Promise<Manifest> {
    return new Manifest(await bus.table(ARCHIVE_BUCKET, tableEntry))
  }

  async entry(k: number): Promise<ManifestEntry | undefined> {
    const found = await this.table.get(keyOf(k))
    return found && 'k' in found.value ? found.value : undefined
  }

  /** With the revision that `replace` expects, and when it was written (server ms; undefined: nobody tells). */
  async standing(k: number): Promise<{ entry: ManifestEntry; revision: number; time: number | undefined } | undefined> {
    const found = await this.table.get(keyOf(k))
    return found && 'k' in found.value ? { entry: found.value, revision: found.revision, time: found.time } : undefined
  }

  /** Compare-and-set of an entry's object, or that it is removed. False: somebody else changed it since. */
  async replace(entry: ManifestEntry, revision: number): Promise<boolean> {
    return (await this.table.update(keyOf(entry.k), entry, revision)) !== undefined
  }

  /** False: another replica sealed this segment first, and its entry stands. */
  async claim(entry: ManifestEntry): Promise<boolean> {
    const revision = await this.table.create(keyOf(entry.k), entry)
    if (revision === undefined) return false
    await this.table.put(HEAD, { v: 1, head: entry.k })
    return true
  }

  /** The newest sealed segment. The head is a hint that a crash may leave behind, so what follows it is tried too. */
  async newest(): Promise<ManifestEntry | undefined> {
    const hint = await this.table.get(HEAD)
    let newest = (hint && 'head' in hint.value ? await this.entry(hint.value.head) : undefined) ?? (await this.highest())
    while (newest) {
      const next = await this.entry(newest.k + 1)
      if (!next) return newest
      newest = next
    }
    return undefined
  }

  /** Where an unfinished rebuild of the projection began. */
  async rebuilding(): Promise<number | undefined> {
    const found = await this.table.get(REBUILD)
    return found && 'rebuild_from' in found.value ? found.value.rebuild_from : undefined
  }

  async beginRebuild(from: number): Promise<void> {
    await this.table.put(REBUILD, { v: 1, rebuild_from: from })
  }

  async endRebuild(): Promise<void> {
    await this.table.delete(REBUILD)
  }

  /** Every entry, oldest first. */
  async all(): Promise<ManifestEntry[]> {
    const found: ManifestEntry[] = []
    for await (const { value } of this.table.entries('segment.>')) if ('k' in value) found.push(value)
    return found.sort((a, b) => a.k - b.k)
  }

  /** Whether nothing stands for a segment: not an entry that cannot be read here either. */
  async isFree(k: number): Promise<boolean> {
    const standing = await this.table.bytesOf(keyOf(k))
    return standing?.data === undefined && standing?.bounced === undefined
  }

  /**
   * Where a bucket was lost, forgets the segments whose objects are gone, so that all the stream holds is sealed anew; `first` is the first segment of
   * which it holds something. By revision: another audit may have begun to seal them, and its entries stay.
   */
  async forgetLost(first: number, objects: Pick<ObjectStore, 'list'>): Promise<void> {
    // A replica that is behind shows what is forgotten already.
    for (let tries = 0; tries < MAX_ATTEMPTS; tries++) if (await this.forgetOnce(first, objects)) return
    throw new Error('what the archive lost is not forgotten yet')
  }

  /** True: there was nothing to forget. */
  private async forgetOnce(first: number, objects: Pick<ObjectStore, 'list'>): Promise<boolean> {
    const found: Entry<z.infer<typeof tableEntry>>[] = []
    for await (const entry of this.table.entries()) found.push(entry)
    // Asked later: an object is there before its entry.
    const there = new Set(await objects.list())
    const whole = found.flatMap(({ value }) => ('k' in value && isThere(value, there) ? [value.k] : [])).sort((a, b) => a - b)
    // Who had not seen yet that the list is another went on with the former one; and of what is between it and the stream nothing is left.
    const [begins = Number.POSITIVE_INFINITY, ends = -1] = [whole[0], whole.at(-1)]
    const goesOn = begins <= first && first <= ends + 1
    const isLost = (value: z.infer<typeof tableEntry>) => !goesOn || ('k' in value && !isThere(value, there))
    const lost = found.filter(({ key, value }) => key !== REBUILD && isLost(value))
    await Promise.all(lost.map(({ key, revision }) => this.table.delete(key, revision)))
    return lost.length === 0
  }

  private async highest(): Promise<ManifestEntry | undefined> {
    return (await this.all()).at(-1)
  }
}

/** Segments of which a sorted list has none, though it has younger ones. */
export function findGaps(entries: readonly Pick<ManifestEntry, 'k'>[]): number[] {
  return entries.flatMap(({ k }, index) => range((entries[index - 1]?.k ?? k - 1) + 1, k))
}

/** Segments that were missing among the others: who seals anew fills them, though there are younger ones. */
export class GapTracker {
  private segments: readonly number[] = []

  /** Those of a list that was read whole. */
  take(entries: readonly Pick<ManifestEntry, 'k'>[]): void {
    this.segments = findGaps(entries)
  }

  add(k: number): void {
    if (!this.segments.includes(k)) this.segments = [...this.segments, k]
  }

  /** Those that are there by now, each until it was handled. */
  async *filled(manifest: Pick<Manifest, 'entry'>): AsyncGenerator<ManifestEntry> {
    for (const k of this.segments) {
      const entry = await manifest.entry(k)
      if (!entry) continue
      yield entry
      this.segments = this.segments.filter((one) => one !== k)
    }
  }
}

function range(from: number, to: number): number[] {
  return Array.from({ length: Math.max(0, to - from) }, (_, n) => from + n)
}

function isThere({ object, index, removed }: ManifestEntry, objects: ReadonlySet<string>): boolean {
  if (!removed) return objects.has(object) && objects.has(index)
  return removed.kept === undefined || objects.has(removed.kept.object)
}

/** The first sequence that no sealed segment holds. */
export function sequenceAfter(entry: ManifestEntry): number {
  return (entry.k + 1) * SEGMENT_SIZE
}
