/** Token-bucket rate limiters, one per name. Pure: the caller passes the time. */
export class TokenBuckets {
  readonly #limits: { per_second: number; burst: number }
  readonly #buckets = new Map<string, { left: number; at: number }>()

  constructor(limits: { per_second: number; burst: number }) {
    this.#limits = limits
  }

  /** Takes one token, or returns the milliseconds until one is available. */
  take(name: string, now: number): { ok: true } | { ok: false; wait_ms: number } {
    const left = this.#left(name, now)
    if (left < 1) {
      this.#buckets.set(name, { left, at: now })
      return { ok: false, wait_ms: Math.ceil(((1 - left) / this.#limits.per_second) * 1_000) }
    }
    this.#buckets.set(name, { left: left - 1, at: now })
    if (this.#buckets.size > 10_000) this.#forget(now)
    return { ok: true }
  }

  /** Takes `cost` more tokens; the count may become negative, so that the next request waits longer. */
  charge(name: string, cost: number, now: number): void {
    this.#buckets.set(name, { left: this.#left(name, now) - cost, at: now })
  }

  #left(name: string, now: number): number {
    const { per_second, burst } = this.#limits
    const known = this.#buckets.get(name)
    return known ? Math.min(burst, known.left + ((now - known.at) / 1_000) * per_second) : burst
  }

  /** Drops buckets that are full again: they equal new ones. */
  #forget(now: number): void {
    const { per_second, burst } = this.#limits
    for (const [name, { left, at }] of this.#buckets) {
      if (left + ((now - at) / 1_000) * per_second >= burst) this.#buckets.delete(name)
    }
  }
}
