const MAX_BYTES = 64
const SLOTS = 2048

interface Known {
  bytes: Uint8Array
  text: string
}

/**
 * Cache of decoded field names. Ours are longer than the library's own cache accepts, and converting the bytes of some sixty names to strings took a
 * third of the time to decode a work step. Holds one entry per hash; a newer name replaces an older one.
 */
export class KeyCache {
  readonly #known: (Known | undefined)[] = new Array(SLOTS).fill(undefined)

  canBeCached(length: number): boolean {
    return length > 0 && length <= MAX_BYTES
  }

  decode(bytes: Uint8Array, offset: number, length: number): string {
    let hash = length
    for (let i = offset; i < offset + length; i += 1) hash = (Math.imul(hash, 31) + (bytes[i] ?? 0)) | 0
    const slot = hash & (SLOTS - 1)
    const known = this.#known[slot]
    if (known && isSame(known.bytes, bytes, offset, length)) return known.text
    const copy = bytes.slice(offset, offset + length)
    const text = Buffer.from(copy.buffer, copy.byteOffset, copy.byteLength).toString('utf8')
    this.#known[slot] = { bytes: copy, text }
    return text
  }
}

function isSame(known: Uint8Array, bytes: Uint8Array, offset: number, length: number): boolean {
  if (known.length !== length) return false
  for (let i = 0; i < length; i += 1) if (known[i] !== bytes[offset + i]) return false
  return true
}
