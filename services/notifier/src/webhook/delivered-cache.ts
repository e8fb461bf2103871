/** Maximum number of deliveries with several notices that are remembered; the oldest are forgotten first. */
const MOST = 12_288

/**
 * Remembers which notices of a delivery in progress were already taken, because the notices of a message are posted one by one. If another replica
 * completes the delivery, this process does not learn of it. A notice that is forgotten here is posted again, with the same id (I1).
 */
export class DeliveredCache {
  readonly #most: number
  readonly #ids = new Map<number, Set<string>>()

  constructor(most = MOST) {
    this.#most = most
  }

  get size(): number {
    return this.#ids.size
  }

  has(sequence: number, id: string): boolean {
    return this.#ids.get(sequence)?.has(id) === true
  }

  add(sequence: number, id: string): void {
    const ids = this.#ids.get(sequence) ?? new Set()
    // Moves the delivery to the end, as the most recent one.
    this.#ids.delete(sequence)
    this.#ids.set(sequence, ids.add(id))
    for (const oldest of this.#ids.keys()) {
      if (this.#ids.size <= this.#most) break
      this.#ids.delete(oldest)
    }
  }

  delete(sequence: number): void {
    this.#ids.delete(sequence)
  }
}
