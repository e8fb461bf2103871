import { endOfValue, valuesIn } from './frame-limits.js'

/** Size of the head of a map, by its first byte. */
function mapHead(head: number | undefined): number | undefined {
  if (head === undefined) return undefined
  if (head >= 0x80 && head <= 0x8f) return 1
  return head === 0xde ? 3 : head === 0xdf ? 5 : undefined
}

/**
 * Returns the encoded value of one entry of a msgpack map without decoding the rest: of a work message only the control frame is needed, never the
 * context (docs/architecture/protocol.md#payloads). Returns `undefined` if the bytes are not a map, have no entry of that name, or end within it.
 *
 * @param name - ASCII
 */
export function findFieldBytes(bytes: Uint8Array, name: string): Uint8Array | undefined {
  let at = mapHead(bytes[0])
  for (let left = at === undefined ? 0 : valuesIn(bytes, 0, bytes[0] ?? 0) / 2; left > 0 && at !== undefined; left--) {
    const value = endOfValue(bytes, at)
    const end = value === undefined ? undefined : endOfValue(bytes, value)
    if (end !== undefined && isKey(bytes, at, name)) return bytes.subarray(value, end)
    at = end
  }
  return undefined
}

/** Returns true if the value at `at` is the text `name`. */
function isKey(bytes: Uint8Array, at: number, name: string): boolean {
  const { length } = name
  if (length <= 31 ? bytes[at] !== (0xa0 | length) : bytes[at] !== 0xd9 || bytes[at + 1] !== length) return false
  const start = at + (length <= 31 ? 1 : 2)
  for (let i = 0; i < length; i++) if (bytes[start + i] !== name.charCodeAt(i)) return false
  return true
}
