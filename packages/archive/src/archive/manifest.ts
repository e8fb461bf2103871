import type { Bus, Entry, ObjectStore, Table } from '@passover/bus'
import { z } from 'zod'
import { SEGMENT_SIZE, segmentName } from '../segment/format.js'

/** Name of the KV bucket of manifest entries, and of the object bucket of segments and their indexes. */
export const ARCHIVE_BUCKET = 'archive'

const hex32 = z.string().regex(/^[0-9a-f]{64}$/)

/**
 * A segment that the archive no longer keeps. Its entry stays, and those of its messages that are still in the stream (policy versions, custody
 * events).
 */
export const removedSegment = z.object({
  why: z.literal('retention'),
  /** Server time (ms) of the removal, and the retention in days that the policy in force then set. */
  at: z.number(),
  retention_days: z.number().positive(),
  /** Object with the uncompressed frames of messages that are kept; absent if there are none. */
  kept: z.object({ object: z.string(), sha256: hex32 }).optional(),
})
export type RemovedSegment = z.infer<typeof removedSegment>

/**
 * Manifest entry of a sealed segment. Each segment has exactly one: the process that creates it has sealed the segment. Later only its object may be
 * replaced, with the same chain values (entries were erased), or the segment is removed.
 */
export const manifestEntry = z.object({
  v: z.literal(1),
  k: z.int().min(0),
  /** Names of the objects in the archive bucket. */
  object: z.string(),
  index: z.string(),
  compression: z.enum(['gzip', 'none']),
  /** Sequence and time (ms) of the first and the last message; 0 if all messages had been deleted. */
  first: z.int().min(0),
  last: z.int().min(0),
  first_time: z.number(),
  last_time: z.number(),
  count: z.int().min(0),
  chain_before: hex32,
  chain_after: hex32,
  /** Size and digest of the object as stored; `raw_size` is the size of its uncompressed frames. */
  size: z.int().min(0),
  raw_size: z.int().min(0),
  sha256: hex32,
  /** Digest of the index. */
  index_sha256: hex32.optional(),
  /** Sequence from which a restarting projector continues. Everything before it is complete in KV (I4 of services/audit/src/index.ts). */
  resume: z.int().positive(),
  removed: removedSegment.optional(),
})
export type ManifestEntry = z.infer<typeof manifestEntry>

const headEntry = z.object({ v: z.literal(1), head: z.int().min(0) })
/** Sequence from which the projection is being rebuilt. Until the rebuild is done, a restart begins there again. */
const rebuildEntry = z.object({ v: z.literal(1), rebuild_from: z.int().positive() })
/** State of the audit's retention. It is stored with the manifest, because it means nothing without it and must be lost with it. */
const retentionEntry = z.object({ v: z.literal(1), retention: z.unknown() })
const tableEntry = z.union([manifestEntry, headEntry, rebuildEntry, retentionEntry])

const HEAD = 'head'
/** Maximum number of reads while replicas catch up with a recent write. */
const MAX_ATTEMPTS = 20
const REBUILD = 'rebuild'

function keyOf(k: number): string {
  return `segment.${segmentName(k)}`
}

/** The list of sealed segments, updated by compare-and-set. */
export class Manifest {
  readonly #table: Table<z.infer<typeof tableEntry>>

  private constructor(table: Table<z.infer<typeof tableEntry>>) {
    this.#table = table
  }

  static async open(bus: Bus): Promise<Manifest> {
    return new Manifest(await bus.table(ARCHIVE_BUCKET, tableEntry))
  }

  async entry(k: number): Promise<ManifestEntry | undefined> {
    const found = await this.#table.get(keyOf(k))
    return found && 'k' in found.value ? found.value : undefined
  }

  /** Returns an entry with the revision that `replace` expects and the server time (ms) at which it was written, `undefined` if not known. */
  async standing(k: number): Promise<{ entry: ManifestEntry; revision: number; time: number | undefined } | undefined> {
    const found = await this.#table.get(keyOf(k))
    return found && 'k' in found.value ? { entry: found.value, revision: found.revision, time: found.time } : undefined
  }

  /** Replaces an entry by compare-and-set: with another object, or as removed. Returns false if another process has changed it. */
  async replace(entry: ManifestEntry, revision: number): Promise<boolean> {
    return (await this.#table.update(keyOf(entry.k), entry, revision)) !== undefined
  }

  /** Creates the entry of a newly sealed segment. Returns false if another replica sealed it first. */
  async claim(entry: ManifestEntry): Promise<boolean> {
    const revision = await this.#table.create(keyOf(entry.k), entry)
    if (revision === undefined) return false
    await this.#table.put(HEAD, { v: 1, head: entry.k })
    return true
  }

  /** Returns the newest sealed segment. The stored head may lag behind after a crash, so later segments are tried too. */
  async newest(): Promise<ManifestEntry | undefined> {
    const hint = await this.#table.get(HEAD)
    let newest = (hint && 'head' in hint.value ? await this.entry(hint.value.head) : undefined) ?? (await this.#highest())
    while (newest) {
      const next = await this.entry(newest.k + 1)
      if (!next) return newest
      newest = next
    }
    return undefined
  }

  /** Returns the sequence at which an unfinished rebuild of the projection began. */
  async rebuilding(): Promise<number | undefined> {
    const found = await this.#table.get(REBUILD)
    return found && 'rebuild_from' in found.value ? found.value.rebuild_from : undefined
  }

  async beginRebuild(from: number): Promise<void> {
    await this.#table.put(REBUILD, { v: 1, rebuild_from: from })
  }

  async endRebuild(): Promise<void> {
    await this.#table.delete(REBUILD)
  }

  /** Returns all entries, oldest first. */
  async all(): Promise<ManifestEntry[]> {
    const found: ManifestEntry[] = []
    for await (const { value } of this.#table.entries('segment.>')) if ('k' in value) found.push(value)
    return found.sort((a, b) => a.k - b.k)
  }

  /** Returns true if nothing is stored for a segment, not even an entry that cannot be read. */
  async isFree(k: number): Promise<boolean> {
    const standing = await this.#table.bytesOf(keyOf(k))
    return standing?.data === undefined && standing?.bounced === undefined
  }

  /**
   * After the loss of a bucket, forgets the segments whose objects are missing, so that everything still in the stream is sealed again. `first` is
   * the first segment of which the stream holds messages. Deletes by revision, so that entries of another audit that has begun to seal stay.
   */
  async forgetLost(first: number, objects: Pick<ObjectStore, 'list'>): Promise<void> {
    // A lagging replica may still return entries that were deleted.
    for (let tries = 0; tries < MAX_ATTEMPTS; tries++) if (await this.#forgetOnce(first, objects)) return
    throw new Error('removed segments not cleared from memory yet')
  }

  /** Runs one pass. Returns true if there was nothing to forget. */
  async #forgetOnce(first: number, objects: Pick<ObjectStore, 'list'>): Promise<boolean> {
    const found: Entry<z.infer<typeof tableEntry>>[] = []
    for await (const entry of this.#table.entries()) found.push(entry)
    // Listed after the entries, because an object is stored before its entry.
    const there = new Set(await objects.list())
    const whole = found.flatMap(({ value }) => ('k' in value && isThere(value, there) ? [value.k] : [])).sort((a, b) => a - b)
    // A process that had not noticed the loss may have continued the old list. If the complete segments do not connect to the stream, the messages in
    // between are lost.
    const [begins = Number.POSITIVE_INFINITY, ends = -1] = [whole[0], whole.at(-1)]
    const goesOn = begins <= first && first <= ends + 1
    const isLost = (value: z.infer<typeof tableEntry>) => !goesOn || ('k' in value && !isThere(value, there))
    const lost = found.filter(({ key, value }) => key !== REBUILD && isLost(value))
    await Promise.all(lost.map(({ key, revision }) => this.#table.delete(key, revision)))
    return lost.length === 0
  }

  async #highest(): Promise<ManifestEntry | undefined> {
    return (await this.all()).at(-1)
  }
}

/** Returns the segments missing from a sorted list that has later ones. */
export function findGaps(entries: readonly Pick<ManifestEntry, 'k'>[]): number[] {
  return entries.flatMap(({ k }, index) => range((entries[index - 1]?.k ?? k - 1) + 1, k))
}

/** Tracks missing segments. They may be sealed later, although newer segments exist. */
export class GapTracker {
  #segments: readonly number[] = []

  /** Replaces the tracked segments by the gaps of a complete list. */
  take(entries: readonly Pick<ManifestEntry, 'k'>[]): void {
    this.#segments = findGaps(entries)
  }

  add(k: number): void {
    if (!this.#segments.includes(k)) this.#segments = [...this.#segments, k]
  }

  /** Yields the entries of tracked segments that exist by now. A segment is tracked until its entry has been handled. */
  async *filled(manifest: Pick<Manifest, 'entry'>): AsyncGenerator<ManifestEntry> {
    for (const k of this.#segments) {
      const entry = await manifest.entry(k)
      if (!entry) continue
      yield entry
      this.#segments = this.#segments.filter((one) => one !== k)
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

/** Returns the first sequence after a sealed segment. */
export function sequenceAfter(entry: ManifestEntry): number {
  return (entry.k + 1) * SEGMENT_SIZE
}
