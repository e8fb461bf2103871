/** What can be in a roster keeps its place there; any number before it ever was in one. */
export interface IndexedItem {
  index: number
}

/**
 * What is under way, in no order. Not a set: of one that many pass through, tables that were left behind keep alive what stood in
 * them (decision 62); and an item finds its own place without being looked for.
 */
export class IndexedSet<T extends IndexedItem> {
  readonly #items: T[] = []

  get size(): number {
    return this.#items.length
  }

  add(item: T): void {
    if (this.has(item)) return
    item.index = this.#items.push(item) - 1
  }

  has(item: T): boolean {
    return this.#items[item.index] === item
  }

  /** False: it was not in it. */
  remove(item: T): boolean {
    if (!this.has(item)) return false
    const last = this.#items.pop()
    if (last && last !== item) {
      this.#items[item.index] = last
      last.index = item.index
    }
    return true
  }

  /** Those that are in it now: what becomes of them meanwhile changes nothing. */
  all(): T[] {
    return this.#items.slice()
  }
}
