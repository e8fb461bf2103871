import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { PassThrough, Readable, Transform, type Writable } from 'node:stream'
import { promisify } from 'node:util'
import { createGzip, gzip } from 'node:zlib'
import type { Bus, ObjectStore, StoredMessage } from '@passover/bus'
import { sha256 } from '@passover/schemas'
import { eventOf, type SegmentBuffer, type SegmentFacts } from './buffer.js'
import { type ArchivedEvent, Chain, type ErasedEntry, encodeErased, encodeFrame } from './format.js'
import { DigestIndexBuilder } from './pass-index.js'

export type Compression = 'gzip' | 'none'

/** Facts about a stored segment object for its manifest entry. */
export interface SegmentSummary extends SegmentFacts {
  chain_after: string
  size: number
  raw_size: number
  sha256: string
}

/** A stored segment. `prints` are the digest prefixes for its index. */
export interface WrittenSegment {
  packed: SegmentSummary
  prints: Uint8Array
}

export interface WriteOptions {
  name: string
  chain_before: string
  compression: Compression
  /** Entries to replace by tombstones, if the segment is read again. */
  erased?: ReadonlyMap<number, ErasedEntry>
}

/**
 * Level 1 compresses text to a fifth at about 100 MB/s, on a thread of libuv's pool. Higher levels save another tenth and take four times as long.
 */
const GZIP = { level: 1 }
const gzipAsync = promisify(gzip)

/** Stores a buffered segment as one object. */
export async function writeBufferedSegment(
  objects: Pick<ObjectStore, 'put'>,
  buffer: SegmentBuffer,
  options: WriteOptions,
): Promise<WrittenSegment> {
  const { raw, digests } = buffer.frames ?? { raw: Buffer.alloc(0), digests: Buffer.alloc(0) }
  const chain = new Chain(Buffer.from(options.chain_before, 'hex'))
  chain.add(digests)
  const data = options.compression === 'gzip' ? await gzipAsync(raw, GZIP) : raw
  await objects.put(options.name, data)
  const packed = { ...buffer.facts, chain_after: chain.end(), size: data.length, raw_size: raw.length, sha256: sha256(data) }
  return { packed, prints: buffer.prints.bytes() }
}

/** Stores a segment that was too large to buffer: reads it from the stream again and pipes it into the object. */
export async function writeStreamedSegment(
  bus: Bus,
  objects: ObjectStore,
  buffer: SegmentBuffer,
  options: WriteOptions,
): Promise<WrittenSegment> {
  const { first, last } = buffer.facts
  const packer = options.compression === 'gzip' ? createGzip(GZIP) : new PassThrough()
  const tap = new Tap()
  const stored = objects.put(options.name, Readable.toWeb(packer.pipe(tap)) as ReadableStream<Uint8Array>)
  const packing = new SegmentWriter(packer, options)
  const reader = await bus.follow({ from: first }, async (message) => {
    if (packer.writableEnded) return
    if (message.sequence <= last) await packing.add(message)
    if (message.sequence >= last) await packing.end()
  })
  // The last message may be deleted by now, with nothing stored after it, so the segment ends when the reader has caught up.
  const ended = options.erased?.has(last) ? [reader.caughtUp.then(() => packing.end()).then(() => stored)] : []
  try {
    await Promise.race([stored, ...ended])
  } finally {
    await reader[Symbol.asyncDispose]()
  }
  const { facts, chain, prints, raw_size } = packing
  const packed = { ...facts, chain_after: chain.end(), size: tap.size, raw_size, sha256: tap.digest() }
  return { packed, prints: prints.bytes() }
}

/** Writes frames in order of their sequences, with the erased entries in between. */
class SegmentWriter {
  readonly #packer: Writable
  readonly facts: SegmentFacts = { first: 0, last: 0, first_time: 0, last_time: 0, count: 0 }
  readonly prints = new DigestIndexBuilder()
  readonly chain: Chain
  raw_size = 0
  readonly #erased: ErasedEntry[]
  #ending: Promise<void> | undefined

  constructor(packer: Writable, { chain_before, erased }: WriteOptions) {
    this.#packer = packer
    this.chain = new Chain(Buffer.from(chain_before, 'hex'))
    this.#erased = [...(erased?.values() ?? [])].sort((a, b) => a.sequence - b.sequence)
  }

  async add(message: StoredMessage): Promise<void> {
    await this.#erasedBefore(message.sequence)
    // While its erasure is in progress, the message is still in the stream.
    const erased = this.#erased[0]?.sequence === message.sequence ? this.#erased.shift() : undefined
    await this.#write(erased ?? eventOf(message))
  }

  end(): Promise<void> {
    this.#ending ??= this.#erasedBefore(Number.POSITIVE_INFINITY).then(() => void this.#packer.end())
    return this.#ending
  }

  async #erasedBefore(sequence: number): Promise<void> {
    for (let one = this.#erased[0]; one && one.sequence < sequence; one = this.#erased[0]) {
      this.#erased.shift()
      await this.#write(one)
    }
  }

  async #write(entry: ArchivedEvent | ErasedEntry): Promise<void> {
    const packer = this.#packer
    const { facts } = this
    const { sequence, time } = entry
    if (facts.count++ === 0) Object.assign(facts, { first: sequence, first_time: time })
    Object.assign(facts, { last: sequence, last_time: time })
    const { digest, bytes } = 'digest' in entry ? { digest: entry.digest, bytes: encodeErased(sequence, entry.digest) } : encodeFrame(entry)
    this.chain.add(digest)
    this.prints.add(sequence, Buffer.from(digest).toString('latin1'))
    this.raw_size += bytes.length
    if (!packer.write(bytes)) await once(packer, 'drain')
  }
}

/** Counts and hashes the bytes that pass through. */
class Tap extends Transform {
  size = 0
  readonly #hash = createHash('sha256')

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: (error: null, chunk: Buffer) => void): void {
    this.size += chunk.length
    this.#hash.update(chunk)
    done(null, chunk)
  }

  digest(): string {
    return this.#hash.digest('hex')
  }
}
