const NONE: ReadonlySet<never> = new Set()

/**
 * Items grouped by agent, each agent's in order of arrival. If room is limited, the caller removes items of the agent that has the most, so that an
 * agent that stores items without end does not displace those of others.
 */
export class PerAgent<T> {
  readonly #items = new Map<string, Set<T>>()
  #count = 0

  /** Number of items of all agents. */
  get size(): number {
    return this.#count
  }

  /** Number of agents that have items. */
  get agents(): number {
    return this.#items.size
  }

  get(agent: string): ReadonlySet<T> {
    return this.#items.get(agent) ?? NONE
  }

  /** Adds an item; one that the agent already has is not counted again. */
  add(agent: string, item: T): void {
    const own = this.#items.get(agent) ?? new Set()
    this.#items.set(agent, own)
    if (!own.has(item)) this.#count++
    own.add(item)
  }

  delete(agent: string, item: T): void {
    const own = this.#items.get(agent)
    if (own?.delete(item)) this.#count--
    if (own?.size === 0) this.#items.delete(agent)
  }

  /** Returns the items of the agent that has the most; empty if there are none. */
  largest(): ReadonlySet<T> {
    let largest: ReadonlySet<T> = NONE
    for (const own of this.#items.values()) if (own.size > largest.size) largest = own
    return largest
  }
}
