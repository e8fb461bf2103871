import { createHash, hash } from 'node:crypto'
import { Decoder, encode } from '@msgpack/msgpack'

/**
 * The codec of archive segments (docs/architecture/audit-archive.md#archive), pure. A segment is a run of frames, each a big-endian length and a msgpack array:
 * `[sequence, time, subject, header block, data]`, or `[sequence, digest]` where the event was erased. An event's digest is SHA-256 over its
 * frame's array, so it covers sequence, time, subject, headers and bytes. The chain's value after a segment is SHA-256 over the value
 * before it and its events' digests in order: an erasure that keeps the digest leaves the chain whole.
 */
export const SEGMENT_SIZE = 4096

/** The chain's value before the first event. */
export const GENESIS: Uint8Array = new Uint8Array(32)

export interface ArchivedEvent {
  sequence: number
  /** Server's time, ms. */
  time: number
  subject: string
  /** The block as it was stored. */
  headers: string
  data: Uint8Array
}

/** An entry of which only the digest is kept, with its time: a tombstone says both. */
export interface ErasedEntry {
  sequence: number
  time: number
  digest: Uint8Array
}

export type Frame = EventFrame | { kind: 'erased'; sequence: number; digest: Uint8Array }

/** An event that stands there, and its digest: made when it is asked for, since who only reads what was sealed needs none. */
class EventFrame {
  readonly kind = 'event'
  private made: Uint8Array | undefined

  constructor(
    readonly event: ArchivedEvent,
    private readonly body: Uint8Array,
  ) {}

  get digest(): Uint8Array {
    this.made ??= hash('sha256', this.body, 'buffer')
    return this.made
  }
}

/** Why bytes are no segment, or not this one; `sequence` is the last one that could still be read (0: none). */
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

/** How a segment is called in keys and names of objects: in order. */
export function segmentName(k: number): string {
  return String(k).padStart(10, '0')
}

/** The number of the segment that holds a sequence. */
export function segmentOf(sequence: number): number {
  return Math.floor(sequence / SEGMENT_SIZE)
}

/** First and last sequence that segment k may hold; sequence 0 does not exist. */
export function segmentRange(k: number): { first: number; last: number } {
  return { first: Math.max(1, k * SEGMENT_SIZE), last: (k + 1) * SEGMENT_SIZE - 1 }
}

const ARRAY_OF_5 = 0x95
const FLOAT_64 = 0xcb
const STR_32 = 0xdb
const BIN_32 = 0xc6
const TEXT_HEAD_BYTES = 5
/** Heads of the five, and the two numbers. */
const FIXED_BYTES = 1 + 9 + 9 + 5 + 5 + 5

/** Bytes of an event's frame, length included. */
export function frameSize({ subject, headers, data }: ArchivedEvent): number {
  return LENGTH_BYTES + FIXED_BYTES + Buffer.byteLength(subject) + Buffer.byteLength(headers) + data.length
}

/**
 * Writes an event's frame into `target` at `start` and gives its digest, a character a byte. By hand, since the audit does it for every message there is: the
 * heads have fixed lengths, and strings are copied natively.
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

/** An event as a frame of its own, and its digest. */
export function encodeFrame(event: ArchivedEvent): { bytes: Uint8Array; digest: Uint8Array } {
  const bytes = Buffer.allocUnsafe(frameSize(event))
  return { digest: Buffer.from(writeFrame(event, bytes, 0), 'latin1'), bytes }
}

/** The frame that stands where an event was erased: its digest keeps the chain whole. */
export function encodeErased(sequence: number, digest: Uint8Array): Uint8Array {
  const body = encode([sequence, digest])
  const bytes = Buffer.alloc(LENGTH_BYTES + body.length)
  bytes.writeUInt32BE(body.length, 0)
  bytes.set(body, LENGTH_BYTES)
  return bytes
}

/** The chain's value after a segment, from the one before it and its events' digests. */
export class Chain {
  private readonly hash = createHash('sha256')

  constructor(before: Uint8Array) {
    this.hash.update(before)
  }

  /** Adds one digest, or several one after the other. */
  add(digests: Uint8Array): void {
    this.hash.update(digests)
  }

  /** The value that it would have if nothing more were added, in hex. */
  now(): string {
    return this.hash.copy().digest('hex')
  }

  /** In hex. Once. */
  end(): string {
    return this.hash.digest('hex')
  }
}

export function sequenceOf(frame: Frame): number {
  return frame.kind === 'event' ? frame.event.sequence : frame.sequence
}

/** The frames of a segment in order. Throws SegmentDamaged where they end to be such. */
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
    throw new SegmentDamaged(named === last ? `sequence ${named} stands there twice` : `sequence ${named} stands out of order`, last)
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

/** Where the two numbers stand, behind their heads, and where the first text begins. */
const SEQUENCE_AT = 2
const TIME_AT = 11
const SUBJECT_AT = 19

/** An event with heads as `writeFrame` writes them, by hand: millions are read again. Undefined: it is something else, and the decoder says what. */
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

/** Where a text, or bytes, with this head would end; undefined where it does not stand there. */
function endOf(bytes: Buffer, at: number, head: number): number | undefined {
  return at + TEXT_HEAD_BYTES <= bytes.length && bytes[at] === head ? at + TEXT_HEAD_BYTES + bytes.readUInt32BE(at + 1) : undefined
}

function decodeArray(body: Uint8Array, last: number): unknown[] {
  try {
    const value = decoder.decode(body)
    if (Array.isArray(value)) return value
  } catch {
    // told below: where it broke off matters, not how msgpack puts it
  }
  throw new SegmentDamaged('not a frame', last)
}

function isSequence(value: unknown, last: number): value is number {
  return Number.isSafeInteger(value) && (value as number) > last
}

function isDigest(value: unknown): value is Uint8Array {
  return value instanceof Uint8Array && value.length === 32
}
