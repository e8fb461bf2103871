import type { PassKey } from '@passover/schemas'

/** Two independent 32-bit hashes of a pass. */
export interface PassHash {
  hash: number
  check: number
}

const SEPARATOR = 0x2e

/** Hashes a pass. `seed` is secret to this process, so that no one can construct collisions. Writes into `into`, because this runs for every pass. */
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

/** Adds a word and a separator that agent names and ids do not contain. */
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
