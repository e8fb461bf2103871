/**
 * Returns the encoded value of one entry of a msgpack map without decoding the rest: of a work message only the control frame is needed, never the
 * context (docs/architecture/protocol.md#payloads). Returns `undefined` if the bytes are not a map, have no entry of that name, or end within it.
 */
export function findFieldBytes(bytes: Uint8Array, name: string): Uint8Array | undefined {
  const cursor: Cursor = { bytes, view: new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength), at: 0 }
  try {
    for (let left = mapSize(cursor); left > 0; left--) {
      const found = keyIs(cursor, name)
      const from = cursor.at
      skip(cursor)
      if (found) return cursor.at <= bytes.length ? bytes.subarray(from, cursor.at) : undefined
    }
  } catch (error) {
    if (!(error instanceof RangeError)) throw error
  }
  return undefined
}

interface Cursor {
  readonly bytes: Uint8Array
  readonly view: DataView
  at: number
}

function mapSize(cursor: Cursor): number {
  const head = cursor.bytes[cursor.at++]
  if (head === undefined) return 0
  if (head >= 0x80 && head <= 0x8f) return head & 0x0f
  if (head === 0xde) return uint(cursor, 2)
  if (head === 0xdf) return uint(cursor, 4)
  return 0
}

/** Reads a key. Returns true if it equals `name`, which must be ASCII. */
function keyIs(cursor: Cursor, name: string): boolean {
  const start = cursor.at
  const head = cursor.bytes[start] ?? 0
  const headSize = head >= 0xa0 && head <= 0xbf ? 1 : head === 0xd9 ? 2 : 0
  skip(cursor)
  if (headSize === 0 || cursor.at - start - headSize !== name.length) return false
  for (let i = 0; i < name.length; i++) if (cursor.bytes[start + headSize + i] !== name.charCodeAt(i)) return false
  return true
}

/** Skips one value of any kind, containers including their contents. */
function skip(cursor: Cursor): void {
  for (let pending = 1; pending > 0; pending--) {
    if (cursor.at >= cursor.bytes.length) throw new RangeError('cut off')
    pending += skipOne(cursor)
  }
}

/** Skips a head and its plain bytes. Returns the number of nested values that follow. */
function skipOne(cursor: Cursor): number {
  const head = cursor.bytes[cursor.at++] ?? 0xc1
  if (head <= 0x7f || head >= 0xe0) return 0
  if (head <= 0x8f) return (head & 0x0f) * 2
  if (head <= 0x9f) return head & 0x0f
  if (head <= 0xbf) return over(cursor, head & 0x1f)
  return WIDE[head - 0xc0]?.(cursor) ?? 0
}

function over(cursor: Cursor, length: number): number {
  cursor.at += length
  return 0
}

function uint(cursor: Cursor, size: 1 | 2 | 4): number {
  const { view, at } = cursor
  cursor.at += size
  if (size === 1) return view.getUint8(at)
  return size === 2 ? view.getUint16(at) : view.getUint32(at)
}

type Step = (cursor: Cursor) => number
const fixed =
  (length: number): Step =>
  (cursor) =>
    over(cursor, length)
const sized =
  (size: 1 | 2 | 4, extra = 0): Step =>
  (cursor) =>
    over(cursor, uint(cursor, size) + extra)
const many =
  (size: 2 | 4, each: 1 | 2): Step =>
  (cursor) =>
    uint(cursor, size) * each

/** Skip functions for the heads 0xc0 to 0xdf of the msgpack specification. */
const WIDE: Step[] = [
  ...[fixed(0), fixed(0), fixed(0), fixed(0)], // nil, (never used), false, true
  ...[sized(1), sized(2), sized(4)], // bin 8, 16, 32
  ...[sized(1, 1), sized(2, 1), sized(4, 1)], // ext 8, 16, 32: plus a type byte
  ...[fixed(4), fixed(8)], // float 32, 64
  ...[fixed(1), fixed(2), fixed(4), fixed(8)], // uint 8 … 64
  ...[fixed(1), fixed(2), fixed(4), fixed(8)], // int 8 … 64
  ...[fixed(2), fixed(3), fixed(5), fixed(9), fixed(17)], // fixext 1 … 16
  ...[sized(1), sized(2), sized(4)], // str 8, 16, 32
  ...[many(2, 1), many(4, 1)], // array 16, 32
  ...[many(2, 2), many(4, 2)], // map 16, 32
]
