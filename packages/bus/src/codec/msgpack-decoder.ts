import { EXTENSION, MAX_INTERNED_BYTES, readInterned } from './interned-values.js'

/**
 * Decodes the subset of msgpack that nearly all bodies use: plain maps with short keys, text, numbers, lists, bytes and interned values. Takes a
 * third of the general decoder's time. Returns `undefined` for everything else, which the general decoder then handles: other extensions, huge or
 * malformed values, deep nesting, trailing bytes.
 */
export function unpack(bytes: Uint8Array): unknown {
  const buffer = bytes instanceof Buffer ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  at = 0
  try {
    const value = read(buffer, 0)
    return at === buffer.length ? value : undefined
  } catch (error) {
    if (error === NOT_PLAIN || error instanceof RangeError) return undefined
    throw error
  }
}

const NOT_PLAIN = new Error('not plain')
const MAX_DEPTH = 32
const MAX_KEY = 40
const MAX_LOOP = 24
const KEYS = 1024
/** 2^32. */
const HIGH = 4_294_967_296

/** Read position. Module state is safe: decoding is synchronous, so there is one reader at a time. */
let at = 0

const known: ({ bytes: Uint8Array; text: string } | undefined)[] = new Array(KEYS).fill(undefined)

function read(buffer: Buffer, depth: number): unknown {
  const head = buffer[at++]
  if (head === undefined || depth > MAX_DEPTH) throw NOT_PLAIN
  if (head <= 0x7f) return head
  if (head <= 0x8f) return readMap(buffer, head & 0x0f, depth)
  if (head <= 0x9f) return readList(buffer, head & 0x0f, depth)
  if (head <= 0xbf) return readText(buffer, head & 0x1f)
  if (head >= 0xe0) return head - 0x100
  return readWide(buffer, head, depth)
}

function readWide(buffer: Buffer, head: number, depth: number): unknown {
  switch (head) {
    case 0xc0:
      return null
    case 0xc2:
      return false
    case 0xc3:
      return true
    case 0xc4:
      return readBytes(buffer, size(buffer, 1))
    case 0xc5:
      return readBytes(buffer, size(buffer, 2))
    case 0xc6:
      return readBytes(buffer, size(buffer, 4))
    case 0xc7:
      return readExtension(buffer, size(buffer, 1))
    case 0xc8:
      return readExtension(buffer, size(buffer, 2))
    case 0xd4:
    case 0xd5:
    case 0xd6:
    case 0xd7:
    case 0xd8:
      return readExtension(buffer, 1 << (head - 0xd4))
    case 0xcb:
      at += 8
      return buffer.readDoubleBE(at - 8)
    case 0xcc:
      return size(buffer, 1)
    case 0xcd:
      return size(buffer, 2)
    case 0xce:
      return size(buffer, 4)
    case 0xcf:
      return readUint64(buffer)
    case 0xd9:
      return readText(buffer, size(buffer, 1))
    case 0xda:
      return readText(buffer, size(buffer, 2))
    case 0xdb:
      return readText(buffer, size(buffer, 4))
    case 0xdc:
      return readList(buffer, size(buffer, 2), depth)
    case 0xde:
      return readMap(buffer, size(buffer, 2), depth)
    default:
      throw NOT_PLAIN
  }
}

function size(buffer: Buffer, width: 1 | 2 | 4): number {
  at += width
  if (at > buffer.length) throw NOT_PLAIN
  let value = 0
  for (let i = at - width; i < at; i++) value = value * 256 + (buffer[i] ?? 0)
  return value
}

function readUint64(buffer: Buffer): number {
  const value = size(buffer, 4) * HIGH + size(buffer, 4)
  if (!Number.isSafeInteger(value)) throw NOT_PLAIN
  return value
}

function readBytes(buffer: Buffer, length: number): Uint8Array {
  const start = at
  at += length
  if (at > buffer.length) throw NOT_PLAIN
  return new Uint8Array(buffer.buffer, buffer.byteOffset + start, length)
}

function readExtension(buffer: Buffer, length: number): unknown {
  if (buffer[at++] !== EXTENSION || length > MAX_INTERNED_BYTES) throw NOT_PLAIN
  const value = readInterned(readBytes(buffer, length))
  if (value === undefined) throw NOT_PLAIN
  return value
}

function readText(buffer: Buffer, length: number): string {
  const start = at
  at += length
  if (at > buffer.length) throw NOT_PLAIN
  if (length <= MAX_LOOP) {
    let text = ''
    for (let i = start; i < at; i++) {
      const code = buffer[i] ?? 0
      if (code > 0x7f) return readUtf8(buffer, start)
      text += String.fromCharCode(code)
    }
    return text
  }
  return readUtf8(buffer, start)
}

function readUtf8(buffer: Buffer, start: number): string {
  const text = buffer.toString('utf8', start, at)
  // Invalid UTF-8 is left to the general decoder; so is a genuine U+FFFD, which cannot be distinguished from a replacement character here.
  if (text.includes('\uFFFD')) throw NOT_PLAIN
  return text
}

function readList(buffer: Buffer, length: number, depth: number): unknown[] {
  if (length > buffer.length - at) throw NOT_PLAIN
  const list: unknown[] = []
  for (let i = 0; i < length; i++) list.push(read(buffer, depth + 1))
  return list
}

function readMap(buffer: Buffer, length: number, depth: number): Record<string, unknown> {
  if (length > buffer.length - at) throw NOT_PLAIN
  const map: Record<string, unknown> = {}
  for (let i = 0; i < length; i++) map[readKey(buffer)] = read(buffer, depth + 1)
  return map
}

function readKey(buffer: Buffer): string {
  const head = buffer[at++] ?? 0
  const length = head >= 0xa0 && head <= 0xbf ? head & 0x1f : head === 0xd9 ? size(buffer, 1) : MAX_KEY + 1
  const start = at
  at += length
  if (length > MAX_KEY || at > buffer.length) throw NOT_PLAIN
  let hash = length
  for (let i = start; i < at; i++) hash = (Math.imul(hash, 31) + (buffer[i] ?? 0)) | 0
  const slot = hash & (KEYS - 1)
  const met = known[slot]
  if (met && isSame(met.bytes, buffer, start)) return met.text
  // Two names of one body with the same hash would replace each other every time, so each slot has an alternative.
  const other = known[slot ^ 1]
  if (other && isSame(other.bytes, buffer, start)) return other.text
  const text = readUtf8(buffer, start)
  if (text === '__proto__') throw NOT_PLAIN
  known[met ? slot ^ 1 : slot] = { bytes: Uint8Array.from(buffer.subarray(start, at)), text }
  return text
}

function isSame(met: Uint8Array, buffer: Buffer, start: number): boolean {
  if (met.length !== at - start) return false
  for (let i = 0; i < met.length; i++) if (met[i] !== buffer[start + i]) return false
  return true
}
