import { createCipheriv, createHash } from 'node:crypto'

/**
 * A part as it lies in its bucket: named and enciphered by keys that follow from its hash. A direct get answers a wildcard too, with
 * the newest message that matches, so a bucket's names and bytes are no secret from whoever may read any part of it; the hash is.
 */
export interface PartCipher {
  /** Stands in the subjects in place of the hash. */
  token: string
  /** Enciphers a chunk, or deciphers it: the same operation. */
  apply(chunk: Uint8Array, index: number): Uint8Array
}

/** The token under which a part lies, which does not tell its hash. */
export function partToken(hash: string): string {
  return createHash('sha256').update(`passover part name ${hash}`).digest('hex')
}

/** The seal of a part's hash. Equal bytes have equal seals, so that a part is stored once. */
export function partCipher(hash: string): PartCipher {
  const key = createHash('sha256').update(`passover part key ${hash}`).digest()
  return {
    token: partToken(hash),
    apply(chunk, index) {
      // A key is used for one content only; each chunk has its own range of counters.
      const counter = Buffer.alloc(16)
      counter.writeUInt32BE(index, 4)
      return createCipheriv('aes-256-ctr', key, counter).update(chunk)
    },
  }
}
