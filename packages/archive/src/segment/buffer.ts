import { readHeaders, type StoredMessage } from '@passover/bus'
import type { Fact } from '@passover/schemas'
import {
  type ArchivedEvent,
  decodeFrames,
  type ErasedEntry,
  encodeErased,
  frameSize,
  SEGMENT_SIZE,
  segmentRange,
  sequenceOf,
  writeFrame,
} from './format.js'
import { ownedParts } from './part-references.js'
import { DigestIndexBuilder, IndexBuilder } from './pass-index.js'

/** Size in bytes above which a segment is no longer buffered, but read again from the stream when it is sealed. */
const MAX_BUFFERED_BYTES = 32 * 1024 * 1024

/** Size of a SHA-256 digest. */
const DIGEST_BYTES = 32

/** Size of the chunks into which frames are written one after the other. */
const CHUNK_BYTES = 512 * 1024

/** Facts about a segment, complete once its last event has been added. */
export interface SegmentFacts {
  first: number
  last: number
  first_time: number
  last_time: number
  count: number
}

/** A range of sequences; both ends are included. */
export interface SequenceRange {
  from: number
  to: number
}

/** The open segment: its frames as long as they fit into memory, and the data for its index. */
export class SegmentBuffer {
  readonly #limit: number
  index = new IndexBuilder()
  /** Digest prefixes of the frames in memory. */
  readonly prints = new DigestIndexBuilder()
  readonly facts: SegmentFacts = { first: 0, last: 0, first_time: 0, last_time: 0, count: 0 }
  /** Ranges of sequences before its last entry for which it has no entry. */
  readonly #skipped: SequenceRange[] = []
  /** Filled chunks of frames; `undefined` once the segment is too large. `chunk` is the one being filled. */
  #chunks: Buffer[] | undefined = []
  #chunk = Buffer.alloc(0)
  #used = 0
  #size = 0
  /**
   * All digests as bytes in one buffer. A growing string would keep its pieces as separate objects, which the garbage collector moves until it is
   * read.
   */
  readonly #digests = Buffer.allocUnsafeSlow(SEGMENT_SIZE * DIGEST_BYTES)
  #kept = 0

  constructor(
    readonly k: number,
    limit = MAX_BUFFERED_BYTES,
  ) {
    this.#limit = limit
  }

  add(stored: StoredMessage, fact: Fact, session: string | undefined): void {
    this.#note(stored)
    this.index.add(fact, session)
    for (const part of ownedParts(stored, fact)) this.index.addPart(part, stored.sequence)
    if (this.#chunks) this.#keep(eventOf(stored), this.#chunks)
  }

  /**
   * Returns the same segment with erased frames in place of these entries, whether it has them or they were deleted from the stream before they were
   * read. Requires that the segment is buffered.
   */
  erase(erased: ReadonlyMap<number, ErasedEntry>): SegmentBuffer {
    const next = new SegmentBuffer(this.k, Number.POSITIVE_INFINITY)
    next.index = this.index.without(erased)
    const left = [...erased.values()].sort((a, b) => a.sequence - b.sequence)
    const before = (sequence: number) => {
      for (let one = left[0]; one && one.sequence < sequence; one = left[0]) {
        next.addErased(one)
        left.shift()
      }
    }
    for (const frame of decodeFrames(this.frames?.raw ?? Buffer.alloc(0))) {
      const sequence = sequenceOf(frame)
      before(sequence)
      const entry = erased.get(sequence)
      if (entry) next.addErased({ ...entry, digest: frame.kind === 'event' ? frame.digest : entry.digest })
      else if (frame.kind === 'event') next.#addEvent(frame.event)
      if (entry) left.shift()
    }
    before(Number.POSITIVE_INFINITY)
    return next
  }

  /** Adds an entry that was deleted from the stream. */
  addErased(entry: ErasedEntry): void {
    this.#note(entry)
    if (this.#chunks) this.#write(this.#chunks, encodeErased(entry.sequence, entry.digest), entry)
  }

  #addEvent(event: ArchivedEvent): void {
    this.#note(event)
    if (this.#chunks) this.#keep(event, this.#chunks)
  }

  /** Ranges of the segment's sequences without an entry: they were deleted, or the server that was read from lacks them. */
  get gaps(): readonly SequenceRange[] {
    const { last } = segmentRange(this.k)
    return this.#next > last ? this.#skipped : [...this.#skipped, { from: this.#next, to: last }]
  }

  get #next(): number {
    return this.facts.count === 0 ? segmentRange(this.k).first : this.facts.last + 1
  }

  #note({ sequence, time }: { sequence: number; time: number }): void {
    const next = this.#next
    const { facts } = this
    if (sequence > next) this.#skipped.push({ from: next, to: sequence - 1 })
    if (facts.count === 0) {
      facts.first = sequence
      facts.first_time = time
    }
    facts.last = sequence
    facts.last_time = time
    facts.count++
  }

  /** Number of bytes of the frames in memory. */
  get bytes(): number {
    return this.#chunks ? this.#size : 0
  }

  /** The frames of the segment and their digests, or `undefined` if it is too large and has to be read from the stream again. */
  get frames(): { raw: Buffer; digests: Buffer } | undefined {
    return (
      this.#chunks && {
        raw: Buffer.concat([...this.#chunks, this.#chunk.subarray(0, this.#used)]),
        digests: this.#digests.subarray(0, this.#kept),
      }
    )
  }

  /** True if the frames are in memory. */
  get buffered(): boolean {
    return this.#chunks !== undefined
  }

  #keep(event: ArchivedEvent, chunks: Buffer[]): void {
    const size = frameSize(event)
    if (!this.#makeRoom(size, chunks)) return
    const digest = writeFrame(event, this.#chunk, this.#used)
    this.#noteDigest(event.sequence, digest)
    this.#used += size
  }

  #write(chunks: Buffer[], frame: Uint8Array, { sequence, digest }: ErasedEntry): void {
    if (!this.#makeRoom(frame.length, chunks)) return
    this.#chunk.set(frame, this.#used)
    this.#noteDigest(sequence, Buffer.from(digest).toString('latin1'))
    this.#used += frame.length
  }

  /** Makes room for a frame. Returns false if the segment has become too large to be buffered. */
  #makeRoom(size: number, chunks: Buffer[]): boolean {
    this.#size += size
    if (this.#size > this.#limit) {
      this.#chunks = undefined
      this.#chunk = Buffer.alloc(0)
      return false
    }
    if (this.#used + size > this.#chunk.length) {
      chunks.push(this.#chunk.subarray(0, this.#used))
      this.#chunk = Buffer.allocUnsafeSlow(Math.max(CHUNK_BYTES, size))
      this.#used = 0
    }
    return true
  }

  #noteDigest(sequence: number, digest: string): void {
    this.#kept += this.#digests.write(digest, this.#kept, 'latin1')
    this.prints.add(sequence, digest)
  }
}

/** Converts a stored message to its archived form. */
export function eventOf({ sequence, time, subject, headers, data }: StoredMessage): ArchivedEvent {
  return { sequence, time, subject, headers: headers.text(), data }
}

/** Converts an archived event back to a stored message, with its header block parsed. */
export function storedOf(event: ArchivedEvent): StoredMessage {
  return { ...event, headers: readHeaders(event.headers) }
}
