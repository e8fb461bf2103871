import { Decoder, Encoder } from '@msgpack/msgpack'
import { PROTO, parseJson } from '@passover/schemas'
import { frameFault, isTooDeep } from './frame-limits.js'
import { interning, MAX_INTERNED_BYTES } from './interned-values.js'
import { unpack } from './msgpack-decoder.js'
import { pack } from './msgpack-encoder.js'

/** The two encodings of message bodies. */
export type BodyType = 'msgpack' | 'json'
export const CONTENT_TYPE: Record<BodyType, string> = { msgpack: 'application/msgpack', json: 'application/json' }

/** Describes bytes that could not be decoded. A value and not an exception, because the sender of the message has to be answered. */
export interface CodecError {
  type: BodyType
  message: string
}
export type Decoded = { ok: true; value: unknown; type: BodyType } | { ok: false; error: CodecError }

const MAX_DEPTH = 64
const TOO_DEEP = `nested deeper than ${MAX_DEPTH}`
const MIB = 1024 * 1024
/** Decoder limits. No body is larger than a message; the limits keep a false length from reserving memory. */
const decoder = new Decoder({
  maxStrLength: 64 * MIB,
  maxBinLength: 64 * MIB,
  maxArrayLength: 1_000_000,
  maxMapLength: 100_000,
  maxExtLength: MAX_INTERNED_BYTES,
  extensionCodec: interning,
})
const encoder = new Encoder({ ignoreUndefined: true, extensionCodec: interning, maxDepth: MAX_DEPTH + 36 })
const text = new TextDecoder('utf-8', { fatal: true })
const bytes = new TextEncoder()

/** Encodes a body. JSON carries byte strings as base64 text. Throws on values that cannot be encoded (a bug of the caller). */
export function encode(value: unknown, type: BodyType = 'msgpack'): Uint8Array {
  if (type === 'json') return bytes.encode(JSON.stringify(value, bytesAsBase64))
  return pack(value) ?? encoder.encode(value)
}

/** Decodes a body by its Content-Type, or by its first bytes if there is none. Never throws. */
export function decode(data: Uint8Array, contentType?: string): Decoded {
  const type = bodyType(data, contentType)
  const plain = type === 'msgpack' ? unpack(data) : undefined
  if (plain !== undefined) return { ok: true, value: plain, type }
  try {
    const value = type === 'json' ? jsonOf(data) : general(data)
    if (isTooDeep(value, MAX_DEPTH)) return { ok: false, error: { type, message: TOO_DEEP } }
    return { ok: true, value, type }
  } catch (error) {
    return { ok: false, error: { type, message: error instanceof Error ? error.message : String(error) } }
  }
}

/** Decodes a body that only `passover` writes. Skips the depth check of {@link decode}, and returns `undefined` if the body cannot be decoded. */
export function decodeTrusted(data: Uint8Array, contentType?: string): unknown {
  try {
    return bodyType(data, contentType) === 'json' ? jsonOf(data) : (unpack(data) ?? general(data))
  } catch {
    return undefined
  }
}

/**
 * Decodes with the general decoder what {@link unpack} does not handle. The decoder reserves memory for every length that it reads, so the lengths
 * are checked first.
 */
function general(data: Uint8Array): unknown {
  const fault = frameFault(data, MAX_DEPTH)
  if (fault === 'depth') throw new Error(TOO_DEEP)
  if (fault === 'lengths') throw new Error('it declares more values than it has bytes')
  return decoder.decode(data)
}

/**
 * Returns the encoding of a body. `nats pub` sends no Content-Type: a body that begins with `{` or `[` after white space is JSON (in msgpack these
 * bytes are a lone number).
 */
export function bodyType(data: Uint8Array, contentType?: string): BodyType {
  const named = contentType?.toLowerCase()
  if (named?.includes('msgpack')) return 'msgpack'
  if (named?.includes('json')) return 'json'
  for (const byte of data) {
    if (byte === 0x20 || byte === 0x09 || byte === 0x0a || byte === 0x0d) continue
    return byte === 0x7b || byte === 0x5b ? 'json' : 'msgpack'
  }
  return 'msgpack'
}

function jsonOf(data: Uint8Array): unknown {
  return parseJson(text.decode(data), protoRefused)
}

/** Error for a `__proto__` key, with the text of the msgpack decoder's own error. */
function protoRefused(): Error {
  return new Error(`The key ${PROTO} is not allowed`)
}

function bytesAsBase64(this: unknown, key: string, value: unknown): unknown {
  const raw = (this as Record<string, unknown>)[key]
  return raw instanceof Uint8Array ? Buffer.from(raw).toString('base64') : value
}
