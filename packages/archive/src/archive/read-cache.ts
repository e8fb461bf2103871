import { LRUCache } from 'lru-cache'

/** What was read last, and what is being read: many that ask for the same at once read it once. What failed is read again. */
export class ReadCache<T extends object> {
  private readonly reads: LRUCache<number, Promise<T>>

  constructor(most: number) {
    this.reads = new LRUCache({ max: most })
  }

  /** `isKept` false: the next one reads it anew. */
  of(k: number, read: () => Promise<T>, isKept: (found: T) => boolean = () => true): Promise<T> {
    const known = this.reads.get(k)
    if (known) return known
    const reading = read()
    this.reads.set(k, reading)
    // It may have been forgotten, and be read anew, meanwhile.
    const drop = () => void (this.reads.peek(k) === reading && this.reads.delete(k))
    reading.then((found) => isKept(found) || drop(), drop)
    return reading
  }

  forget(k: number): void {
    this.reads.delete(k)
  }
}
