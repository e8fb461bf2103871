/** What can be in a roster keeps its place there; any number before it ever was in one. */
export interface Listed {
  place: number
}

/**
 * What is under way, in no order. Not a set: of one that many pass through, tables that were left behind keep alive what stood in
 * them (decision 62); and an item finds its own place without being looked for.
 */
export class Roster<T extends Listed> {
  readonly #items: T[] = []

  get size(): number {
    return this.#items.length
  }

  add(item: T): void {
    if (this.has(item)) return
    item.place = this.#items.push(item) - 1
  }

  has(item: T): boolean {
    return this.#items[item.place] === item
  }

  /** False: it was not in it. */
  remove(item: T): boolean {
    if (!this.has(item)) return false
    const last = this.#items.pop()
    if (last && last !== item) {
      this.#items[item.place] = last
      last.place = item.place
    }
    return true
  }

  /** Those that are in it now: what becomes of them meanwhile changes nothing. */
  all(): T[] {
    return this.#items.slice()
  }
}
