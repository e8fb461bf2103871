import type { Stored } from '@passover/bus'
import type { Fact } from '@passover/schemas'
import { partsNamed } from './parts-named.js'
import { type ArchivedEvent, frameSize, SEGMENT_SIZE, writeFrame } from './segment.js'
import { IndexBuilder, PrintsBuilder } from './segment-index.js'

/** Past this many bytes a segment is no longer buffered, but read again from the stream when it is sealed. */
const MAX_BUFFERED_BYTES = 32 * 1024 * 1024

/** SHA-256. */
const DIGEST_BYTES = 32

/** Frames are written one after the other into chunks of this size. */
const CHUNK_BYTES = 512 * 1024

/** What a segment says about itself, known when its last event came by. */
export interface SegmentFacts {
  first: number
  last: number
  first_time: number
  last_time: number
  count: number
}

/** The open segment: its frames as far as they fit, and what its index needs. */
export class SegmentBuffer {
  readonly index = new IndexBuilder()
  /** Of the frames that are in memory. */
  readonly prints = new PrintsBuilder()
  readonly facts: SegmentFacts = { first: 0, last: 0, first_time: 0, last_time: 0, count: 0 }
  /** Full chunks of frames, and the one that is being filled; undefined once the segment is too large. */
  private chunks: Buffer[] | undefined = []
  private chunk = Buffer.alloc(0)
  private used = 0
  private size = 0
  /** In bytes, behind one another: the pieces of a text that grows are kept, and moved, one by one until it is read. */
  private readonly digests = Buffer.allocUnsafeSlow(SEGMENT_SIZE * DIGEST_BYTES)
  private kept = 0

  constructor(
    readonly k: number,
    private readonly limit = MAX_BUFFERED_BYTES,
  ) {}

  add(stored: Stored, fact: Fact, session: string | undefined): void {
    const { facts } = this
    if (facts.count === 0) {
      facts.first = stored.sequence
      facts.first_time = stored.time
    }
    facts.last = stored.sequence
    facts.last_time = stored.time
    facts.count++
    this.index.add(fact, session)
    for (const part of partsNamed(stored)) this.index.parts.add(part)
    if (this.chunks) this.keep(eventOf(stored), this.chunks)
  }

  /** The segment's frames and their digests; undefined: too many bytes, read them from the stream again. */
  get frames(): { raw: Buffer; digests: Buffer } | undefined {
    return (
      this.chunks && {
        raw: Buffer.concat([...this.chunks, this.chunk.subarray(0, this.used)]),
        digests: this.digests.subarray(0, this.kept),
      }
    )
  }

  /** Whether the frames are in memory. */
  get buffered(): boolean {
    return this.chunks !== undefined
  }

  private keep(event: ArchivedEvent, chunks: Buffer[]): void {
    const size = frameSize(event)
    this.size += size
    if (this.size > this.limit) {
      this.chunks = undefined
      this.chunk = Buffer.alloc(0)
      return
    }
    if (this.used + size > this.chunk.length) {
      chunks.push(this.chunk.subarray(0, this.used))
      this.chunk = Buffer.allocUnsafeSlow(Math.max(CHUNK_BYTES, size))
      this.used = 0
    }
    const digest = writeFrame(event, this.chunk, this.used)
    this.kept += this.digests.write(digest, this.kept, 'latin1')
    this.prints.add(event.sequence, digest)
    this.used += size
  }
}

/** A stored message as it is archived. */
export function eventOf({ sequence, time, subject, headers, data }: Stored): ArchivedEvent {
  return { sequence, time, subject, headers: headers.text(), data }
}
