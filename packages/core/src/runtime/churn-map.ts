interface Cell<V> {
  value: V | undefined
}

/**
 * A map that many pass through and few stay in. A plain one makes its table anew every few hundred of them, and a table that was left
 * behind keeps alive what stood in it, and all that this names, until old memory is swept; so a fifth of a process's time went into the
 * garbage collector (decision 62). Here what is taken out is let go of at once. In the order in which keys were set first.
 */
export class ChurnMap<K extends string | number, V extends object> {
  readonly #cells = new Map<K, Cell<V>>()

  get size(): number {
    return this.#cells.size
  }

  has(key: K): boolean {
    return this.#cells.has(key)
  }

  get(key: K): V | undefined {
    return this.#cells.get(key)?.value
  }

  set(key: K, value: V): void {
    const cell = this.#cells.get(key)
    if (cell) cell.value = value
    else this.#cells.set(key, { value })
  }

  delete(key: K): boolean {
    return this.take(key) !== undefined
  }

  /** What stood there; from now on nothing does. */
  take(key: K): V | undefined {
    const cell = this.#cells.get(key)
    if (!cell) return undefined
    const { value } = cell
    this.#cells.delete(key)
    cell.value = undefined
    return value
  }

  clear(): void {
    for (const key of [...this.#cells.keys()]) this.take(key)
  }

  keys(): IterableIterator<K> {
    return this.#cells.keys()
  }

  *values(): Generator<V, undefined> {
    for (const { value } of this.#cells.values()) if (value !== undefined) yield value
  }

  *[Symbol.iterator](): Generator<[K, V], undefined> {
    for (const [key, { value }] of this.#cells) if (value !== undefined) yield [key, value]
  }

  /** The one that was set first. */
  first(): V | undefined {
    for (const { value } of this.#cells.values()) return value
    return undefined
  }
}
