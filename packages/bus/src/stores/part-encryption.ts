import { createCipheriv, createHash } from 'node:crypto'

/**
 * Encrypts a part for its bucket: its name and its key are derived from its hash. A direct get also accepts a wildcard and returns the newest match,
 * so names and bytes of a bucket are visible to everyone who may read any part of it; the hash is the secret.
 */
export interface PartCipher {
  /** Replaces the hash in subjects. */
  token: string
  /** Encrypts or decrypts a chunk: the same operation. */
  apply(chunk: Uint8Array, index: number): Uint8Array
}

/** Returns the token under which a part is stored. It does not reveal the hash. */
export function partToken(hash: string): string {
  return createHash('sha256').update(`passover part name ${hash}`).digest('hex')
}

/** Returns the cipher for a part's hash. Equal bytes yield equal ciphertext, so that a part is stored once. */
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
