import { randomBytes } from 'node:crypto'
import { type Hashed, hashPass } from '../search/hash.js'

/** Keys that were come by, 53 bits of each: a bucket has at most a million. */
export class Seen {
  private readonly keys = new Set<number>()
  private readonly hashed: Hashed = { hash: 0, check: 0 }
  private readonly seed = randomBytes(4).readUInt32LE()

  add(key: string): void {
    this.keys.add(this.numberOf(key))
  }

  has(key: string): boolean {
    return this.keys.has(this.numberOf(key))
  }

  private numberOf(key: string): number {
    hashPass({ originator: '', subagent: '', id: key }, this.seed, this.hashed)
    return this.hashed.hash * 0x20_0000 + (this.hashed.check >>> 11)
  }
}
