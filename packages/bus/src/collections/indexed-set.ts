/** Item that stores its own index in an {@link IndexedSet}. Any number before it is added. */
export interface IndexedItem {
  index: number
}

/**
 * Unordered set of active items. Avoids `Set`: with many short-lived entries its discarded tables keep them alive (decision 62). An item knows its
 * own index, so removing needs no lookup.
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

  /** Removes an item. Returns false if it was not in the set. */
  remove(item: T): boolean {
    if (!this.has(item)) return false
    const last = this.#items.pop()
    if (last && last !== item) {
      this.#items[item.index] = last
      last.index = item.index
    }
    return true
  }

  /** Returns a copy of the current items, unaffected by later changes. */
  all(): T[] {
    return this.#items.slice()
  }
}
