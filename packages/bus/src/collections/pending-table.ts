const INITIAL_SIZE = 64

/**
 * What waits for an answer, each under a number that it is given. Not a map: a map that many pass through makes its table anew every
 * few hundred of them, and a table that was left behind keeps alive what stood in it, until old memory is swept (decision 62).
 */
export class PendingTable<T> {
  #places: ({ number: number; item: T } | undefined)[] = new Array(INITIAL_SIZE).fill(undefined)
  #next = 0
  #size = 0

  get size(): number {
    return this.#size
  }

  /** Gives the number; no other that waits has it, nor had any before. */
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

  /** Those that wait now, with their numbers; in no order. */
  entries(): { number: number; item: T }[] {
    return this.#places.filter((found) => found !== undefined)
  }

  /** Numbers go on for longer than 32 bits. */
  #placeOf(number: number): number {
    return number % this.#places.length
  }

  #grow(): void {
    const all = this.entries()
    this.#places = new Array(this.#places.length * 2).fill(undefined)
    for (const entry of all) this.#places[this.#placeOf(entry.number)] = entry
  }
}
