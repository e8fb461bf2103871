import { Decoder, Encoder, ExtData, ExtensionCodec } from '@msgpack/msgpack'
import { frameFault, isTooDeep } from './frame-limits.js'

/** MessagePack extension type of an interned map: a map that many messages repeat, stored as the bytes of its own encoding. */
export const EXTENSION = 1
/** Maximum encoded size of an interned map. A larger map is written as a plain map. */
export const MAX_INTERNED_BYTES = 4096
/**
 * Maximum nesting depth of an interned map. A deeper one is written as a plain map, because the decoder does not check the depth of interned values
 * again.
 */
const MAX_DEPTH = 24
const KEPT = 256

const plain = new Encoder({ ignoreUndefined: true })
const reader = new Decoder({ maxExtLength: 0 })
const extensions = new Encoder()
const marked = new WeakMap<object, { data: ExtData; bytes: Uint8Array } | null>()
const read = new Map<string, unknown>()

/**
 * Marks a value as deeply constant and encoded often. It is encoded once, and decoding the same bytes again returns the same frozen value. (The
 * policy in force is part of every work step: some forty fields that hardly ever differ.)
 */
export function intern<T extends object>(value: T): T {
  if (!marked.has(value)) {
    const inside = plain.encode(value)
    const data = new ExtData(EXTENSION, inside)
    const interns = inside.length <= MAX_INTERNED_BYTES && !isTooDeep(value, MAX_DEPTH)
    marked.set(value, interns ? { data, bytes: extensions.encode(data) } : null)
  }
  return value
}

class Interning extends ExtensionCodec<undefined> {
  override tryToEncode(object: unknown): ExtData | null {
    return marked.get(object as object)?.data ?? null
  }

  override decode(data: Uint8Array, type: number): unknown {
    return type === EXTENSION ? valueIn(data) : new ExtData(type, data)
  }
}

export const interning = new Interning()

/** Returns the bytes of the whole extension, or `undefined` if the value was not interned. */
export function internedBytes(value: object): Uint8Array | undefined {
  return marked.get(value)?.bytes
}

/** Decodes the value inside an extension. Returns `undefined` if the bytes are not valid. */
export function readInterned(inside: Uint8Array): unknown {
  try {
    return valueIn(inside)
  } catch {
    return undefined
  }
}

function valueIn(inside: Uint8Array): unknown {
  const name = Buffer.from(inside.buffer, inside.byteOffset, inside.byteLength).toString('latin1')
  const known = read.get(name)
  if (known !== undefined) return known
  if (frameFault(inside, MAX_DEPTH)) throw new Error('an interned value has wrong lengths, or is nested too deep')
  const value = reader.decode(inside)
  if (isTooDeep(value, MAX_DEPTH)) throw new Error(`an interned value nested deeper than ${MAX_DEPTH}`)
  if (read.size >= KEPT) read.clear()
  read.set(name, deepFreeze(value))
  return value
}

function deepFreeze(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || value instanceof Uint8Array) return value
  for (const one of Object.values(value)) deepFreeze(one)
  return Object.freeze(value)
}
