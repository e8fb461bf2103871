import { createHash, hash } from 'node:crypto'
import { Decoder, encode } from '@msgpack/msgpack'

/**
 * Number of sequences in a segment.
 *
 * This file is the codec of archive segments (docs/architecture/audit-archive.md#archive), without side effects. A segment is a run of frames. Each
 * frame is a big-endian length and a msgpack array: `[sequence, time, subject, header block, data]`, or `[sequence, digest]` if the event was erased.
 * The digest of an event is the SHA-256 of its frame's array, so it covers sequence, time, subject, headers and bytes. The chain value after a
 * segment is the SHA-256 of the value before it followed by the digests of its events in order. An erasure that keeps the digest does not break the
 * chain.
 */
export const SEGMENT_SIZE = 4096

/** Chain value before the first event. */
export const GENESIS: Uint8Array = new Uint8Array(32)

export interface ArchivedEvent {
  sequence: number
  /** Server time in milliseconds. */
  time: number
  subject: string
  /** Header block as it was stored. */
  headers: string
  data: Uint8Array
}

/** An entry of which only the digest and the time are kept. Both come from its tombstone. */
export interface ErasedEntry {
  sequence: number
  time: number
  digest: Uint8Array
}

export type Frame = EventFrame | { kind: 'erased'; sequence: number; digest: Uint8Array }

/** A complete event and its digest. The digest is computed on first access, since readers that only need the events do not use it. */
class EventFrame {
  readonly #body: Uint8Array
  readonly kind = 'event'
  #made: Uint8Array | undefined

  constructor(
    readonly event: ArchivedEvent,
    body: Uint8Array,
  ) {
    this.#body = body
  }

  get digest(): Uint8Array {
    this.#made ??= hash('sha256', this.#body, 'buffer')
    return this.#made
  }
}

/** Thrown if bytes are not a segment, or not the expected one. `sequence` is the last one that could be read, 0 if there is none. */
export class SegmentDamaged extends Error {
  constructor(
    readonly what: string,
    readonly sequence: number,
  ) {
    super(sequence > 0 ? `${what}, after sequence ${sequence}` : what)
    this.name = 'SegmentDamaged'
  }
}

const LENGTH_BYTES = 4
const decoder = new Decoder()

/** Returns the name of a segment in keys and object names. The names sort in the order of the segments. */
export function segmentName(k: number): string {
  return String(k).padStart(10, '0')
}

/** Returns the number of the segment that holds a sequence. */
export function segmentOf(sequence: number): number {
  return Math.floor(sequence / SEGMENT_SIZE)
}

/** Returns the first and last sequence that segment k may hold. Sequence 0 does not exist. */
export function segmentRange(k: number): { first: number; last: number } {
  return { first: Math.max(1, k * SEGMENT_SIZE), last: (k + 1) * SEGMENT_SIZE - 1 }
}

const ARRAY_OF_5 = 0x95
const FLOAT_64 = 0xcb
const STR_32 = 0xdb
const BIN_32 = 0xc6
const TEXT_HEAD_BYTES = 5
/** Bytes of the five msgpack heads and the two numbers. */
const FIXED_BYTES = 1 + 9 + 9 + 5 + 5 + 5

/** Returns the size in bytes of an event's frame, including its length prefix. */
export function frameSize({ subject, headers, data }: ArchivedEvent): number {
  return LENGTH_BYTES + FIXED_BYTES + Buffer.byteLength(subject) + Buffer.byteLength(headers) + data.length
}

/**
 * Writes an event's frame into `target` at `start` and returns its digest as a binary string. Encoded by hand for speed, since the audit does this
 * for every message: the heads have fixed lengths, and strings are copied natively.
 */
export function writeFrame(event: ArchivedEvent, target: Buffer, start: number): string {
  const { sequence, time, subject, headers, data } = event
  let at = target.writeUInt8(ARRAY_OF_5, start + LENGTH_BYTES)
  at = target.writeDoubleBE(sequence, target.writeUInt8(FLOAT_64, at))
  at = target.writeDoubleBE(time, target.writeUInt8(FLOAT_64, at))
  at = writeText(target, subject, at)
  at = writeText(target, headers, at)
  at = target.writeUInt32BE(data.length, target.writeUInt8(BIN_32, at))
  target.set(data, at)
  const end = at + data.length
  target.writeUInt32BE(end - start - LENGTH_BYTES, start)
  return hash('sha256', target.subarray(start + LENGTH_BYTES, end), 'binary')
}

function writeText(target: Buffer, text: string, start: number): number {
  const at = start + TEXT_HEAD_BYTES
  const length = target.write(text, at)
  target.writeUInt32BE(length, target.writeUInt8(STR_32, start))
  return at + length
}

/** Encodes an event as a separate frame and returns its digest. */
export function encodeFrame(event: ArchivedEvent): { bytes: Uint8Array; digest: Uint8Array } {
  const bytes = Buffer.allocUnsafe(frameSize(event))
  return { digest: Buffer.from(writeFrame(event, bytes, 0), 'latin1'), bytes }
}

/** Encodes the frame that replaces an erased event. Its digest keeps the chain valid. */
export function encodeErased(sequence: number, digest: Uint8Array): Uint8Array {
  const body = encode([sequence, digest])
  const bytes = Buffer.alloc(LENGTH_BYTES + body.length)
  bytes.writeUInt32BE(body.length, 0)
  bytes.set(body, LENGTH_BYTES)
  return bytes
}

/** Computes the chain value after a segment from the value before it and the digests of its events. */
export class Chain {
  readonly #hash = createHash('sha256')

  constructor(before: Uint8Array) {
    this.#hash.update(before)
  }

  /** Adds one digest, or several concatenated ones. */
  add(digests: Uint8Array): void {
    this.#hash.update(digests)
  }

  /** Returns the current value in hex without ending the computation. */
  now(): string {
    return this.#hash.copy().digest('hex')
  }

  /** Returns the final value in hex. May be called only once. */
  end(): string {
    return this.#hash.digest('hex')
  }
}

export function sequenceOf(frame: Frame): number {
  return frame.kind === 'event' ? frame.event.sequence : frame.sequence
}

/** Yields the frames of a segment in order. Throws SegmentDamaged at the first invalid frame. */
export function* decodeFrames(segment: Uint8Array): Generator<Frame> {
  const view = new DataView(segment.buffer, segment.byteOffset, segment.byteLength)
  let at = 0
  let last = 0
  while (at < segment.length) {
    const end = at + LENGTH_BYTES <= segment.length ? at + LENGTH_BYTES + view.getUint32(at) : Number.POSITIVE_INFINITY
    if (end > segment.length) throw new SegmentDamaged('cut off', last)
    const frame = decodeFrame(segment.subarray(at + LENGTH_BYTES, end), last)
    last = frame.kind === 'event' ? frame.event.sequence : frame.sequence
    yield frame
    at = end
  }
}

function decodeFrame(body: Uint8Array, last: number): Frame {
  const written = eventIn(body, last)
  if (written) return new EventFrame(written, body)
  const value = decodeArray(body, last)
  const [named] = value
  if (Number.isSafeInteger(named) && !isSequence(named, last)) {
    throw new SegmentDamaged(named === last ? `sequence ${named} occurs twice` : `sequence ${named} is out of order`, last)
  }
  if (value.length === 2 && isSequence(value[0], last) && isDigest(value[1])) {
    return { kind: 'erased', sequence: value[0], digest: value[1] }
  }
  const [sequence, time, subject, headers, data] = value
  if (value.length !== 5 || !isSequence(sequence, last) || typeof time !== 'number' || typeof subject !== 'string') {
    throw new SegmentDamaged('not a frame', last)
  }
  if (typeof headers !== 'string' || !(data instanceof Uint8Array)) throw new SegmentDamaged('not a frame', last)
  return new EventFrame({ sequence, time, subject, headers, data }, body)
}

/** Offsets of the two numbers behind their heads, and of the head of the first text. */
const SEQUENCE_AT = 2
const TIME_AT = 11
const SUBJECT_AT = 19

/**
 * Decodes an event with the heads that `writeFrame` writes. By hand, because millions of events are read again. Returns `undefined` for anything
 * else; the msgpack decoder then reports the defect.
 */
function eventIn(body: Uint8Array, last: number): ArchivedEvent | undefined {
  if (body.length < FIXED_BYTES || body[0] !== ARRAY_OF_5 || body[SEQUENCE_AT - 1] !== FLOAT_64 || body[TIME_AT - 1] !== FLOAT_64)
    return undefined
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.length)
  const sequence = bytes.readDoubleBE(SEQUENCE_AT)
  const headersAt = endOf(bytes, SUBJECT_AT, STR_32)
  const dataAt = headersAt && endOf(bytes, headersAt, STR_32)
  if (!isSequence(sequence, last) || !headersAt || !dataAt || endOf(bytes, dataAt, BIN_32) !== bytes.length) return undefined
  return {
    sequence,
    time: bytes.readDoubleBE(TIME_AT),
    subject: bytes.toString('utf8', SUBJECT_AT + TEXT_HEAD_BYTES, headersAt),
    headers: bytes.toString('utf8', headersAt + TEXT_HEAD_BYTES, dataAt),
    data: body.subarray(dataAt + TEXT_HEAD_BYTES),
  }
}

/** Returns the end of a text or byte string with this head, or `undefined` if the head does not match. */
function endOf(bytes: Buffer, at: number, head: number): number | undefined {
  return at + TEXT_HEAD_BYTES <= bytes.length && bytes[at] === head ? at + TEXT_HEAD_BYTES + bytes.readUInt32BE(at + 1) : undefined
}

function decodeArray(body: Uint8Array, last: number): unknown[] {
  try {
    const value = decoder.decode(body)
    if (Array.isArray(value)) return value
  } catch {
    // Reported below. The position of the defect matters, not msgpack's message.
  }
  throw new SegmentDamaged('not a frame', last)
}

function isSequence(value: unknown, last: number): value is number {
  return Number.isSafeInteger(value) && (value as number) > last
}

function isDigest(value: unknown): value is Uint8Array {
  return value instanceof Uint8Array && value.length === 32
}
