import type { ListPosition } from '../../records/list-cursor.js'

/** Keeps the newest `most` of the items offered, in a heap whose root is the oldest item kept. */
export class TopN<T extends ListPosition> {
  readonly #most: number
  readonly #heap: T[] = []

  constructor(most: number) {
    this.#most = most
  }

  /** True if an item at this position would be kept. */
  wants(created_at: number, sequence: number): boolean {
    const oldest = this.#heap[0]
    if (this.#heap.length < this.#most || !oldest) return true
    return created_at > oldest.created_at || (created_at === oldest.created_at && sequence > oldest.sequence)
  }

  offer(entry: T): void {
    const heap = this.#heap
    const most = this.#most
    if (heap.length < most) {
      heap.push(entry)
      this.#up(heap.length - 1)
      return
    }
    heap[0] = entry
    this.#down(0)
  }

  /** `created_at` of the oldest item once the heap is full: anything older is not kept. `undefined` while there is room. */
  get bound(): number | undefined {
    return this.#heap.length < this.#most ? undefined : this.#heap[0]?.created_at
  }

  /** Returns the items, newest first. */
  sorted(): T[] {
    return [...this.#heap].sort((a, b) => b.created_at - a.created_at || b.sequence - a.sequence)
  }

  #up(at: number): void {
    for (let child = at; child > 0; ) {
      const parent = (child - 1) >> 1
      if (!this.#swapIfOlder(child, parent)) return
      child = parent
    }
  }

  #down(at: number): void {
    for (let parent = at; ; ) {
      const left = 2 * parent + 1
      const oldest = this.#isOlder(left + 1, left) ? left + 1 : left
      if (!this.#swapIfOlder(oldest, parent)) return
      parent = oldest
    }
  }

  #swapIfOlder(child: number, parent: number): boolean {
    const heap = this.#heap
    const [below, above] = [heap[child], heap[parent]]
    if (!below || !above || !this.#isOlder(child, parent)) return false
    heap[child] = above
    heap[parent] = below
    return true
  }

  #isOlder(one: number, other: number): boolean {
    const [a, b] = [this.#heap[one], this.#heap[other]]
    if (!a || !b) return false
    return a.created_at < b.created_at || (a.created_at === b.created_at && a.sequence < b.sequence)
  }
}
