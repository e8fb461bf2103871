import { type Bus, decode, type StoredMessage, type Table } from '@passover/bus'
import { type Clock, sequencesIn } from '@passover/core'
import { type AcknowledgedFact, HEADER } from '@passover/schemas'
import { LRUCache } from 'lru-cache'
import type { Logger } from 'pino'
import {
  type Chunk,
  type ChunkEntry,
  chunkOf,
  decodeChunk,
  emptyChunk,
  encodeChunk,
  hasBit,
  mergeChunks,
  setBit,
} from './sequence-bitmap.js'

/** KV bucket of which returns were acknowledged, some 65,000 sequences of one originator an entry. */
export const ACKNOWLEDGED_BUCKET = 'acknowledged'

/** Chunks in memory besides those that are to be written. */
const MAX_CACHED_CHUNKS = 1_024
const FLUSH_INTERVAL_MS = 5_000
/** Chunks to be written beyond which the reader waits: whoever names returns far apart is no faster than they are written. */
const MAX_DIRTY_CHUNKS = 2_048

interface DirtyChunk {
  bits: Chunk
  /** Sequence of the first acknowledgment that is in no written entry. */
  since: number
}

/**
 * Which returns their originators have. It is an index of its own, by sequence, beside the records: of every plain pass one record is
 * written, when it ended, and an acknowledgment a second later costs a bit in an entry that thousands share (decision 49). An originator
 * speaks for its own returns only: its bits are looked at for its own passes and no others. Bits are only ever set, so that replicas, restarts
 * and rebuilds come to the same bytes in whatever order they read.
 */
export class AckIndex {
  /** Told of each list. */
  onAcknowledged: (originator: string, sequences: readonly number[]) => void = () => undefined
  private readonly known: LRUCache<string, Chunk>
  private dirty = new Map<string, DirtyChunk>()
  private writing = new Map<string, DirtyChunk>()
  private flushing: Promise<void> | undefined
  private next: Promise<void> | undefined
  private flushedAt = 0
  private stopped = false

  constructor(
    private readonly table: Table<ChunkEntry>,
    private readonly clock: Clock,
    private readonly log: Logger,
  ) {
    this.known = new LRUCache({ max: MAX_CACHED_CHUNKS })
    this.flushedAt = clock.monotonic()
  }

  /** A process says which returns it handed to their callers. */
  take(stored: StoredMessage, fact: AcknowledgedFact): void {
    const decoded = decode(stored.data, stored.headers.get(HEADER.contentType))
    if (!decoded.ok) return
    let number = -1
    let dirty: DirtyChunk | undefined
    const sequences = sequencesIn(decoded.value, fact.sequence)
    for (const sequence of sequences) {
      if (chunkOf(sequence) !== number) {
        number = chunkOf(sequence)
        dirty = this.dirtyOf(chunkKey(fact.originator, number), fact.sequence)
      }
      if (dirty) setBit(dirty.bits, sequence)
    }
    this.onAcknowledged(fact.originator, sequences)
  }

  /** Whether an originator acknowledged a return of its own; a promise where the bucket must be asked. */
  has(originator: string, sequence: number): boolean | Promise<boolean> {
    const key = chunkKey(originator, chunkOf(sequence))
    if (this.isIn(this.dirty.get(key), sequence) || this.isIn(this.writing.get(key), sequence)) return true
    const known = this.known.get(key)
    return known ? hasBit(known, sequence) : this.load(key).then((chunk) => hasBit(chunk, sequence))
  }

  /** Lowest sequence of an acknowledgment that is in no written entry. */
  get lowest(): number | undefined {
    let lowest: number | undefined
    for (const { since } of [...this.dirty.values(), ...this.writing.values()]) lowest = Math.min(lowest ?? since, since)
    return lowest
  }

  /** Writes what is new, every few seconds. */
  sweep(): void {
    if (this.clock.monotonic() - this.flushedAt >= FLUSH_INTERVAL_MS) void this.flush()
  }

  /** Settles when everything taken until now is written, or could not be. One at a time: who asks while one runs shares the next. */
  flush(): Promise<void> {
    if (this.next) return this.next
    if (!this.flushing) return this.writeAll()
    this.next = this.flushing.then(() => {
      this.next = undefined
      return this.writeAll()
    })
    return this.next
  }

  /** A promise when the reader must wait for some to be written. */
  backpressure(): Promise<void> | undefined {
    return this.dirty.size > MAX_DIRTY_CHUNKS && !this.stopped ? this.flush() : undefined
  }

  get pending(): number {
    return this.dirty.size + this.writing.size
  }

  stop(): void {
    this.stopped = true
  }

  private isIn(dirty: DirtyChunk | undefined, sequence: number): boolean {
    return dirty !== undefined && hasBit(dirty.bits, sequence)
  }

  private dirtyOf(key: string, since: number): DirtyChunk {
    const known = this.dirty.get(key)
    if (known) return known
    const made = { bits: emptyChunk(), since }
    this.dirty.set(key, made)
    return made
  }

  private async load(key: string): Promise<Chunk> {
    const chunk = decodeChunk((await this.table.get(key))?.value)
    // What was written meanwhile is in one of the two.
    const known = this.known.get(key)
    const whole = known ? mergeChunks(known, chunk) : chunk
    this.known.set(key, whole)
    return whole
  }

  private async writeAll(): Promise<void> {
    if (this.dirty.size === 0 || this.stopped) return
    this.flushedAt = this.clock.monotonic()
    this.writing = this.dirty
    this.dirty = new Map()
    this.flushing = Promise.all([...this.writing].map(([key, dirty]) => this.write(key, dirty))).then(() => {
      this.flushing = undefined
    })
    await this.flushing
  }

  /** By compare-and-set: a replica may have bits that are not in ours, whoever is ahead. */
  private async write(key: string, dirty: DirtyChunk): Promise<void> {
    try {
      for (;;) {
        const found = await this.table.get(key)
        const whole = mergeChunks(decodeChunk(found?.value), dirty.bits)
        const entry = encodeChunk(whole)
        const written = found ? await this.table.update(key, entry, found.revision) : await this.table.create(key, entry)
        if (written === undefined) continue
        this.known.set(key, whole)
        break
      }
    } catch (error) {
      this.log.warn({ key, err: error }, 'acknowledgments not written')
      const again = this.dirtyOf(key, dirty.since)
      again.since = Math.min(again.since, dirty.since)
      again.bits = mergeChunks(again.bits, dirty.bits)
    }
    this.writing.delete(key)
  }
}

function chunkKey(originator: string, number: number): string {
  return `${originator}.${number}`
}

/** Makes the index anew, where it was lost, from what the stream still has of before `from`. */
export async function rebuildAckIndex(bus: Bus, index: AckIndex, from: number): Promise<void> {
  const { first } = await bus.bounds()
  if (first >= from) return
  const filters = [bus.subjects.all('acknowledged')]
  await using reader = await bus.follow({ filters, from: first }, (stored, fact) => {
    if (fact.type !== 'acknowledged' || stored.sequence >= from) return undefined
    index.take(stored, fact)
    return index.backpressure()
  })
  await Promise.race([reader.caughtUp, reader.closed])
}
