import type { PassKey } from '@passover/schemas'

/** Two independent 32-bit hashes of a pass. */
export interface PassHash {
  hash: number
  check: number
}

const SEPARATOR = 0x2e

/** `seed` is this process's own, so that nobody can make two passes meet. The result is written into `into`: this is done for each pass. */
export function hashPass({ originator, subagent, id }: PassKey, seed: number, into: PassHash): void {
  into.hash = 0xdeadbeef ^ seed
  into.check = 0x41c6ce57 ^ seed
  add(originator, into)
  add(subagent, into)
  add(id, into)
  const { hash: a, check: b } = into
  const mixed = Math.imul(a ^ (a >>> 16), 2246822507) ^ Math.imul(b ^ (b >>> 13), 3266489909)
  into.hash = mixed >>> 0
  into.check = (Math.imul(b ^ (b >>> 16), 2246822507) ^ Math.imul(mixed ^ (mixed >>> 13), 3266489909)) >>> 0
}

/** After each word stands what no word holds. */
function add(word: string, into: PassHash): void {
  let { hash: a, check: b } = into
  for (let i = 0; i < word.length; i++) {
    const c = word.charCodeAt(i)
    a = Math.imul(a ^ c, 2654435761)
    b = Math.imul(b ^ c, 1597334677)
  }
  into.hash = Math.imul(a ^ SEPARATOR, 2654435761)
  into.check = Math.imul(b ^ SEPARATOR, 1597334677)
}
