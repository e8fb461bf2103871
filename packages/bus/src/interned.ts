import { Decoder, Encoder, ExtData, ExtensionCodec } from '@msgpack/msgpack'

/** MessagePack extension: a map that many messages repeat, as the bytes of its own encoding. */
const EXTENSION = 1
/** A larger one travels as a plain map. */
export const MAX_INTERNED_BYTES = 4096
const KEPT = 256

const plain = new Encoder({ ignoreUndefined: true })
const reader = new Decoder({ maxExtLength: 0 })
const marked = new WeakMap<object, ExtData | null>()
const read = new Map<string, unknown>()

/**
 * Says that a value is deeply constant and will be encoded often: it is encoded once, and whoever decodes the same bytes again gets
 * the same frozen value. (The policy in force stands in every work step, some forty fields that hardly ever differ.)
 */
export function intern<T extends object>(value: T): T {
  if (!marked.has(value)) {
    const bytes = plain.encode(value)
    marked.set(value, bytes.length <= MAX_INTERNED_BYTES ? new ExtData(EXTENSION, bytes) : null)
  }
  return value
}

class Interning extends ExtensionCodec<undefined> {
  override tryToEncode(object: unknown): ExtData | null {
    return marked.get(object as object) ?? null
  }

  override decode(data: Uint8Array, type: number): unknown {
    if (type !== EXTENSION) return new ExtData(type, data)
    const name = Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString('latin1')
    const known = read.get(name)
    if (known !== undefined) return known
    const value = deepFreeze(reader.decode(data))
    if (read.size >= KEPT) read.clear()
    read.set(name, value)
    return value
  }
}

export const interning = new Interning()

function deepFreeze(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || value instanceof Uint8Array) return value
  for (const one of Object.values(value)) deepFreeze(one)
  return Object.freeze(value)
}
