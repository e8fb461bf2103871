const INITIAL_SIZE = 64

/**
 * Table of pending requests keyed by a sequential number. Avoids `Map`: with many short-lived entries it rebuilds its table every few hundred, and a
 * discarded table keeps its entries alive until the old generation is collected (decision 62).
 */
export class PendingTable<T> {
  #places: ({ number: number; item: T } | undefined)[] = new Array(INITIAL_SIZE).fill(undefined)
  #next = 0
  #size = 0

  get size(): number {
    return this.#size
  }

  /** Adds an item and returns its number, which is never reused. */
  add(item: T): number {
    if (this.#size * 2 >= this.#places.length) this.#grow()
    while (this.#places[this.#placeOf(this.#next)] !== undefined) this.#next += 1
    const number = this.#next++
    this.#places[this.#placeOf(number)] = { number, item }
    this.#size += 1
    return number
  }

  take(number: number): T | undefined {
    const place = this.#placeOf(number)
    const found = this.#places[place]
    if (found?.number !== number) return undefined
    this.#places[place] = undefined
    this.#size -= 1
    return found.item
  }

  /** Returns the pending items with their numbers, in no particular order. */
  entries(): { number: number; item: T }[] {
    return this.#places.filter((found) => found !== undefined)
  }

  /** Uses the remainder instead of a bit mask: numbers may exceed 32 bits. */
  #placeOf(number: number): number {
    return number % this.#places.length
  }

  #grow(): void {
    const all = this.entries()
    this.#places = new Array(this.#places.length * 2).fill(undefined)
    for (const entry of all) this.#places[this.#placeOf(entry.number)] = entry
  }
}
