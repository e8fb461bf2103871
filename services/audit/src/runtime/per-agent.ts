const NONE: ReadonlySet<never> = new Set()

/**
 * Items by the agent that they are of, each agent's in the order in which they came. Where there is room for only so many, the agent that has
 * most gives some up: nobody loses its own for what another one stores without end.
 */
export class PerAgent<T> {
  private readonly items = new Map<string, Set<T>>()
  private count = 0

  /** Items of all agents. */
  get size(): number {
    return this.count
  }

  /** Agents that have any. */
  get agents(): number {
    return this.items.size
  }

  get(agent: string): ReadonlySet<T> {
    return this.items.get(agent) ?? NONE
  }

  /** One that it has already is not counted again. */
  add(agent: string, item: T): void {
    const own = this.items.get(agent) ?? new Set()
    this.items.set(agent, own)
    if (!own.has(item)) this.count++
    own.add(item)
  }

  delete(agent: string, item: T): void {
    const own = this.items.get(agent)
    if (own?.delete(item)) this.count--
    if (own?.size === 0) this.items.delete(agent)
  }

  /** Those of the agent that has most; empty where nobody has any. */
  largest(): ReadonlySet<T> {
    let largest: ReadonlySet<T> = NONE
    for (const own of this.items.values()) if (own.size > largest.size) largest = own
    return largest
  }
}
