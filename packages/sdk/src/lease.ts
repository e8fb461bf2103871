import type { Delivery } from '@passover/bus'

/** A lease is renewed so many times in its length. */
const RENEWALS = 3

/**
 * Renews the leases of all deliveries that a worker holds, running or not, from its one sweep.
 * Times are monotonic ms.
 */
export class Leases {
  readonly #held = new Set<Delivery>()
  #lease_ms: number
  #renewed_at: number

  constructor(lease_ms: number, now: number) {
    this.#lease_ms = lease_ms
    this.#renewed_at = now
  }

  get size(): number {
    return this.#held.size
  }

  /** The shortest lease that any of its work names counts for all. */
  hold(delivery: Delivery): void {
    this.#held.add(delivery)
  }

  shorten(lease_ms: number): void {
    if (lease_ms < this.#lease_ms) this.#lease_ms = lease_ms
  }

  release(delivery: Delivery): void {
    this.#held.delete(delivery)
  }

  /**
   * Renews when it is time. `lapsed`: it was so late (the process was stopped, its loop blocked) that leases may be lost:
   * whoever runs must read whether a newer attempt began, and only then renew. The server knows a lease by its message alone: renewing
   * one that was lost would keep the newer attempt's.
   */
  sweep(now: number): { lapsed: boolean } {
    const since = now - this.#renewed_at
    if (since < this.#lease_ms / RENEWALS) return { lapsed: false }
    this.#renewed_at = now
    const lapsed = since >= this.#lease_ms && this.#held.size > 0
    if (!lapsed) for (const delivery of this.#held) delivery.working()
    return { lapsed }
  }

  /** After a look: it is still this attempt's. */
  renew(delivery: Delivery): void {
    if (this.#held.has(delivery)) delivery.working()
  }
}
