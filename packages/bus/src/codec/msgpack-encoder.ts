import { internedBytes } from './interned-values.js'

/**
 * Encodes the values that nearly all bodies consist of: plain objects, lists, text, whole numbers, booleans and bytes. Produces the same bytes as the
 * general encoder. Returns `undefined` for everything else, which the general encoder then handles. Field names are encoded once: they are half of a
 * body.
 */
export function pack(value: unknown): Uint8Array | undefined {
  at = 0
  try {
    write(value, 0)
    return copyOf(at)
  } catch (error) {
    if (error === NOT_PLAIN || error instanceof RangeError) return undefined
    throw error
  }
}

const NOT_PLAIN = new Error('not plain')
const MAX_DEPTH = 16
const MAX_LOOP = 24
const MAX_NAMES = 512
const MAX_NAME = 255
/** Maximum length of a cached name. A longer one is not a field but a digest: it does not recur, and would fill the cache. */
const LONGEST_NAME = 40
const TARGET_BYTES = 64 * 1024
/** Number of bytes reserved for any type byte, length or number. */
const ROOM = 16
/** Size of the blocks that small bodies share. One body that stays in use keeps its whole block in memory. */
const BLOCK_BYTES = 16 * 1024
const SMALL_BYTES = 2 * 1024
/** 2^32. */
const HIGH = 4_294_967_296

const target = Buffer.allocUnsafeSlow(TARGET_BYTES)
/** Write position. Module state is safe: encoding is synchronous, so there is one writer at a time. */
let at = 0
const names = new Map<string, Uint8Array>()
let block = new Uint8Array(BLOCK_BYTES)
let used = 0

/**
 * Copies the encoded bytes. A separate allocation for a small body costs more than encoding it, so many share one block, as in Node's own buffer
 * pool.
 */
function copyOf(bytes: number): Uint8Array {
  if (bytes > SMALL_BYTES) return Uint8Array.from(target.subarray(0, bytes))
  if (used + bytes > BLOCK_BYTES) {
    block = new Uint8Array(BLOCK_BYTES)
    used = 0
  }
  const packed = block.subarray(used, used + bytes)
  packed.set(target.subarray(0, bytes))
  used += bytes
  return packed
}

function write(value: unknown, depth: number): void {
  if (at + ROOM > TARGET_BYTES || depth > MAX_DEPTH) throw NOT_PLAIN
  switch (typeof value) {
    case 'string':
      writeText(value)
      return
    case 'number':
      writeNumber(value)
      return
    case 'boolean':
      target[at++] = value ? 0xc3 : 0xc2
      return
    case 'object':
      if (value === null) target[at++] = 0xc0
      else if (Array.isArray(value)) writeList(value, depth)
      else if (value instanceof Uint8Array) writeBytes(value)
      else writeMap(value as Record<string, unknown>, depth)
      return
    default:
      throw NOT_PLAIN
  }
}

function writeMap(map: Record<string, unknown>, depth: number): void {
  const interned = internedBytes(map)
  if (interned) {
    writeRaw(interned)
    return
  }
  const made = map.constructor as unknown
  if (made !== Object && made !== undefined) throw NOT_PLAIN
  const head = at++
  let count = 0
  for (const name in map) {
    const value = map[name]
    if (value === undefined) continue
    count++
    const known = names.get(name) ?? named(name)
    if (at + known.length + ROOM > TARGET_BYTES) throw NOT_PLAIN
    for (let i = 0; i < known.length; i++) target[at++] = known[i] ?? 0
    write(value, depth + 1)
  }
  if (count <= 15) {
    target[head] = 0x80 | count
    return
  }
  if (count > 0xffff || at + 2 > TARGET_BYTES) throw NOT_PLAIN
  target.copyWithin(head + 3, head + 1, at)
  at += 2
  target[head] = 0xde
  target.writeUInt16BE(count, head + 1)
}

function writeList(list: readonly unknown[], depth: number): void {
  if (list.length > 0xffff) throw NOT_PLAIN
  if (list.length <= 15) target[at++] = 0x90 | list.length
  else {
    target[at++] = 0xdc
    at = target.writeUInt16BE(list.length, at)
  }
  for (const value of list) write(value, depth + 1)
}

function writeBytes(bytes: Uint8Array): void {
  const { length } = bytes
  if (length <= 0xff) {
    target[at++] = 0xc4
    target[at++] = length
  } else if (length <= 0xffff) {
    target[at++] = 0xc5
    at = target.writeUInt16BE(length, at)
  } else throw NOT_PLAIN
  writeRaw(bytes)
}

function writeRaw(bytes: Uint8Array): void {
  if (at + bytes.length + ROOM > TARGET_BYTES) throw NOT_PLAIN
  target.set(bytes, at)
  at += bytes.length
}

function writeText(text: string): void {
  const { length } = text
  if (at + length * 3 + ROOM > TARGET_BYTES) throw NOT_PLAIN
  if (length <= MAX_LOOP && writeAscii(text)) return
  // The size of the head depends on the number of bytes, which is known only after writing: reserve the smallest size that may do.
  const guess = length <= 31 ? 1 : length <= 0xff ? 2 : 3
  const bytes = target.write(text, at + guess)
  const head = bytes <= 31 ? 1 : bytes <= 0xff ? 2 : 3
  if (head !== guess) target.copyWithin(at + head, at + guess, at + guess + bytes)
  writeTextHead(bytes)
  at += bytes
}

function writeAscii(text: string): boolean {
  const { length } = text
  for (let i = 0; i < length; i++) {
    const code = text.charCodeAt(i)
    if (code > 0x7f) return false
    target[at + 1 + i] = code
  }
  target[at] = 0xa0 | length
  at += length + 1
  return true
}

function writeTextHead(bytes: number): void {
  if (bytes <= 31) target[at++] = 0xa0 | bytes
  else if (bytes <= 0xff) {
    target[at++] = 0xd9
    target[at++] = bytes
  } else if (bytes <= 0xffff) {
    target[at++] = 0xda
    at = target.writeUInt16BE(bytes, at)
  } else throw NOT_PLAIN
}

function writeNumber(value: number): void {
  if (!Number.isSafeInteger(value) || value < 0 || Object.is(value, -0)) throw NOT_PLAIN
  if (value < 0x80) target[at++] = value
  else if (value <= 0xff) {
    target[at++] = 0xcc
    target[at++] = value
  } else if (value <= 0xffff) {
    target[at++] = 0xcd
    at = target.writeUInt16BE(value, at)
  } else if (value < HIGH) {
    target[at++] = 0xce
    at = target.writeUInt32BE(value, at)
  } else {
    target[at++] = 0xcf
    at = target.writeUInt32BE(Math.floor(value / HIGH), at)
    at = target.writeUInt32BE(value % HIGH, at)
  }
}

function named(name: string): Uint8Array {
  const text = Buffer.from(name)
  if (text.length > MAX_NAME) throw NOT_PLAIN
  const head = text.length <= 31 ? [0xa0 | text.length] : [0xd9, text.length]
  const bytes = Uint8Array.from([...head, ...text])
  if (names.size < MAX_NAMES && name.length <= LONGEST_NAME) names.set(name, bytes)
  return bytes
}
