import { type Bus, decode, type StoredMessage, type Table } from '@passover/bus'
import { type Clock, sequencesIn } from '@passover/core'
import { type AcknowledgedFact, HEADER } from '@passover/schemas'
import { LRUCache } from 'lru-cache'
import type { Logger } from 'pino'
import { readBefore } from '../runtime/read-before.js'
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

/** KV bucket of acknowledged returns. Each entry covers 65,536 sequences of one originator. */
export const ACKNOWLEDGED_BUCKET = 'acknowledged'

/** Maximum number of cached chunks, not counting those that wait to be written. */
const MAX_CACHED_CHUNKS = 1_024
const FLUSH_INTERVAL_MS = 5_000
/**
 * Number of chunks waiting to be written above which the reader waits, so that acknowledgments of widely spread returns cannot outrun the writes.
 */
const MAX_DIRTY_CHUNKS = 2_048

interface DirtyChunk {
  bits: Chunk
  /** Sequence of the first acknowledgment that is not in a written entry. */
  since: number
}

/**
 * Records which returns their originators have acknowledged. The index is separate from the records and ordered by sequence: a plain pass gets a
 * single record, written at its end, and an acknowledgment a second later only costs one bit in an entry that thousands of returns share (decision
 * 49). The bits of an originator are consulted for its own passes only, so it cannot acknowledge returns of others. Bits are only ever set, so
 * replicas, restarts and rebuilds produce the same bytes in whatever order they read.
 */
export class AckIndex {
  readonly #table: Table<ChunkEntry>
  readonly #clock: Clock
  readonly #log: Logger
  /** Called for each acknowledgment with the sequences that it names. */
  onAcknowledged: (originator: string, sequences: readonly number[]) => void = () => undefined
  readonly #known: LRUCache<string, Chunk>
  #dirty = new Map<string, DirtyChunk>()
  #writing = new Map<string, DirtyChunk>()
  #flushing: Promise<void> | undefined
  #next: Promise<void> | undefined
  #flushedAt = 0
  #stopped = false

  constructor(table: Table<ChunkEntry>, clock: Clock, log: Logger) {
    this.#table = table
    this.#clock = clock
    this.#log = log
    this.#known = new LRUCache({ max: MAX_CACHED_CHUNKS })
    this.#flushedAt = clock.monotonic()
  }

  /** Adds an acknowledgment, in which a process names the returns that it handed to their callers. */
  take(stored: StoredMessage, fact: AcknowledgedFact): void {
    const decoded = decode(stored.data, stored.headers.get(HEADER.contentType))
    if (!decoded.ok) return
    let number = -1
    let dirty: DirtyChunk | undefined
    const sequences = sequencesIn(decoded.value, fact.sequence)
    for (const sequence of sequences) {
      if (chunkOf(sequence) !== number) {
        number = chunkOf(sequence)
        dirty = this.#dirtyOf(chunkKey(fact.originator, number), fact.sequence)
      }
      if (dirty) setBit(dirty.bits, sequence)
    }
    this.onAcknowledged(fact.originator, sequences)
  }

  /** True if an originator acknowledged this return of its own. Returns a promise if the bucket must be read. */
  has(originator: string, sequence: number): boolean | Promise<boolean> {
    const key = chunkKey(originator, chunkOf(sequence))
    if (this.#isIn(this.#dirty.get(key), sequence) || this.#isIn(this.#writing.get(key), sequence)) return true
    const known = this.#known.get(key)
    return known ? hasBit(known, sequence) : this.#load(key).then((chunk) => hasBit(chunk, sequence))
  }

  /** Lowest sequence of an acknowledgment that is not in a written entry. */
  get lowest(): number | undefined {
    let lowest: number | undefined
    for (const { since } of [...this.#dirty.values(), ...this.#writing.values()]) lowest = Math.min(lowest ?? since, since)
    return lowest
  }

  /** Writes pending chunks if the last write began at least 5 seconds ago. */
  sweep(): void {
    if (this.#clock.monotonic() - this.#flushedAt >= FLUSH_INTERVAL_MS) void this.flush()
  }

  /** Resolves once everything taken so far is written or has failed. Only one flush runs at a time; calls during a flush share the next one. */
  flush(): Promise<void> {
    if (this.#next) return this.#next
    if (!this.#flushing) return this.#writeAll()
    this.#next = this.#flushing.then(() => {
      this.#next = undefined
      return this.#writeAll()
    })
    return this.#next
  }

  /** Returns a promise if the reader must wait for pending writes. */
  backpressure(): Promise<void> | undefined {
    return this.#dirty.size > MAX_DIRTY_CHUNKS && !this.#stopped ? this.flush() : undefined
  }

  get pending(): number {
    return this.#dirty.size + this.#writing.size
  }

  stop(): void {
    this.#stopped = true
  }

  #isIn(dirty: DirtyChunk | undefined, sequence: number): boolean {
    return dirty !== undefined && hasBit(dirty.bits, sequence)
  }

  #dirtyOf(key: string, since: number): DirtyChunk {
    const known = this.#dirty.get(key)
    if (known) return known
    const made = { bits: emptyChunk(), since }
    this.#dirty.set(key, made)
    return made
  }

  async #load(key: string): Promise<Chunk> {
    const chunk = decodeChunk((await this.#table.get(key))?.value)
    // Includes bits that were written during the read.
    const known = this.#known.get(key)
    const whole = known ? mergeChunks(known, chunk) : chunk
    this.#known.set(key, whole)
    return whole
  }

  async #writeAll(): Promise<void> {
    if (this.#dirty.size === 0 || this.#stopped) return
    this.#flushedAt = this.#clock.monotonic()
    this.#writing = this.#dirty
    this.#dirty = new Map()
    this.#flushing = Promise.all([...this.#writing].map(([key, dirty]) => this.#write(key, dirty))).then(() => {
      this.#flushing = undefined
    })
    await this.#flushing
  }

  /** Merges and writes by compare-and-set, because a replica may have set bits that are missing here. */
  async #write(key: string, dirty: DirtyChunk): Promise<void> {
    try {
      for (;;) {
        const found = await this.#table.get(key)
        const whole = mergeChunks(decodeChunk(found?.value), dirty.bits)
        const entry = encodeChunk(whole)
        const written = found ? await this.#table.update(key, entry, found.revision) : await this.#table.create(key, entry)
        if (written === undefined) continue
        this.#known.set(key, whole)
        break
      }
    } catch (error) {
      this.#log.warn({ key, err: error }, 'acknowledgments not written')
      const again = this.#dirtyOf(key, dirty.since)
      again.since = Math.min(again.since, dirty.since)
      again.bits = mergeChunks(again.bits, dirty.bits)
    }
    this.#writing.delete(key)
  }
}

function chunkKey(originator: string, number: number): string {
  return `${originator}.${number}`
}

/** Rebuilds a lost index from the acknowledgments before `until` that are still in the stream. */
export function rebuildAckIndex(bus: Bus, index: AckIndex, until: number): Promise<void> {
  return readBefore(bus, { filters: [bus.subjects.all('acknowledged')], until }, (stored, fact) => {
    if (fact.type !== 'acknowledged') return undefined
    index.take(stored, fact)
    return index.backpressure()
  })
}
