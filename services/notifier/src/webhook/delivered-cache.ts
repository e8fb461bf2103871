/** Deliveries with several notices that this process remembers; of more the oldest are forgotten. */
const MOST = 12_288

/**
 * Notices of deliveries under way that were taken already: those of a step are told each on its own. Another replica may finish what
 * this one began, and nobody says so; what is forgotten is posted once more, with the same id (I1).
 */
export class DeliveredCache {
  readonly #ids = new Map<number, Set<string>>()

  constructor(private readonly most = MOST) {}

  get size(): number {
    return this.#ids.size
  }

  has(sequence: number, id: string): boolean {
    return this.#ids.get(sequence)?.has(id) === true
  }

  add(sequence: number, id: string): void {
    const ids = this.#ids.get(sequence) ?? new Set()
    // Behind all others: it is the youngest now.
    this.#ids.delete(sequence)
    this.#ids.set(sequence, ids.add(id))
    for (const oldest of this.#ids.keys()) {
      if (this.#ids.size <= this.most) break
      this.#ids.delete(oldest)
    }
  }

  delete(sequence: number): void {
    this.#ids.delete(sequence)
  }
}
