import { LRUCache } from 'lru-cache'

/** Caches recent reads and shares reads in progress, so that concurrent requests for the same key read once. Failed reads are not cached. */
export class ReadCache<T extends object> {
  readonly #reads: LRUCache<number, Promise<T>>

  constructor(most: number) {
    this.#reads = new LRUCache({ max: most })
  }

  /** Returns the cached or a new read. If `isKept` returns false for the result, the next call reads again. */
  of(k: number, read: () => Promise<T>, isKept: (found: T) => boolean = () => true): Promise<T> {
    const known = this.#reads.get(k)
    if (known) return known
    const reading = read()
    this.#reads.set(k, reading)
    // The key may have been forgotten and be read again in the meantime.
    const drop = () => void (this.#reads.peek(k) === reading && this.#reads.delete(k))
    reading.then((found) => isKept(found) || drop(), drop)
    return reading
  }

  forget(k: number): void {
    this.#reads.delete(k)
  }
}
