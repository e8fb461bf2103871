import type { Delivery } from '@passover/bus'
import { ChurnMap } from '@passover/core'

/** A lease is renewed so many times in its length. */
const RENEWALS_PER_LEASE = 3

/**
 * Renews the leases of all deliveries that a worker holds, running or not, from its one sweep.
 * Times are monotonic ms.
 */
export class LeaseRenewer {
  /** By sequence: one that was delivered again may still be held from before. */
  readonly #held = new ChurnMap<number, Delivery[]>()
  /** Of these it is not known whether they are still this worker's. */
  readonly #unsure = new Set<Delivery>()
  #lease_ms: number
  #renewed_at: number

  constructor(lease_ms: number, now: number) {
    this.#lease_ms = lease_ms
    this.#renewed_at = now
  }

  /** The shortest lease that any of its work names counts for all. */
  hold(delivery: Delivery): void {
    const same = this.#held.get(delivery.sequence)
    if (same) same.push(delivery)
    else this.#held.set(delivery.sequence, [delivery])
  }

  shorten(lease_ms: number): void {
    if (lease_ms < this.#lease_ms) this.#lease_ms = lease_ms
  }

  release(delivery: Delivery): void {
    this.#unsure.delete(delivery)
    const same = this.#held.get(delivery.sequence)
    const at = same?.indexOf(delivery) ?? -1
    if (at >= 0) same?.splice(at, 1)
    if (same?.length === 0) this.#held.delete(delivery.sequence)
  }

  /**
   * Renews when it is time. `lapsed`: it was so late (the process was stopped, its loop blocked) that leases may be lost:
   * whoever runs must read whether a newer attempt began, and only then renew; until a look succeeds it is said again. The server knows a
   * lease by its message alone: renewing one that was lost would keep the newer attempt's.
   */
  sweep(now: number): { lapsed: boolean } {
    const since = now - this.#renewed_at
    if (since < this.#lease_ms / RENEWALS_PER_LEASE) return { lapsed: false }
    this.#renewed_at = now
    for (const same of this.#held.values()) {
      for (const delivery of same) {
        if (since >= this.#lease_ms) this.#unsure.add(delivery)
        if (!this.#unsure.has(delivery)) delivery.working()
      }
    }
    return { lapsed: this.#unsure.size > 0 }
  }

  /** Whoever has not begun reads its journal before it does: only of these it must be found out. */
  doubtOnly(running: ReadonlySet<Delivery>): void {
    for (const delivery of this.#unsure) if (!running.has(delivery)) this.#unsure.delete(delivery)
  }

  isUnsure(delivery: Delivery): boolean {
    return this.#unsure.has(delivery)
  }

  /** After a look: it is still this attempt's. */
  renew(delivery: Delivery): void {
    this.#unsure.delete(delivery)
    if (this.#held.get(delivery.sequence)?.includes(delivery)) delivery.working()
  }
}
