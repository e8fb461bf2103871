import type { Delivery } from '@passover/bus'
import { ChurnMap } from '@passover/core'

/** Number of renewals within the length of a lease. */
const RENEWALS_PER_LEASE = 3

/** Renews the leases of all deliveries that a worker holds, running or not. Called by its sweep. All times are monotonic ms. */
export class LeaseRenewer {
  /** Held deliveries by stream sequence. A redelivery may come while the earlier delivery is still held. */
  readonly #held = new ChurnMap<number, Delivery[]>()
  /** Deliveries that may have been lost to another worker. */
  readonly #unsure = new Set<Delivery>()
  #lease_ms: number
  #renewed_at: number

  constructor(lease_ms: number, now: number) {
    this.#lease_ms = lease_ms
    this.#renewed_at = now
  }

  hold(delivery: Delivery): void {
    const same = this.#held.get(delivery.sequence)
    if (same) same.push(delivery)
    else this.#held.set(delivery.sequence, [delivery])
  }

  /** Lowers the lease length. The shortest lease of any work counts for all deliveries. */
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
   * Renews all leases when they are due. Returns `lapsed: true` if it was called so late that leases may be lost, because the process was stopped or
   * its event loop blocked. Then each running attempt must read whether a newer attempt began before its lease is renewed. `lapsed` stays true until
   * those reads succeed. The server knows a lease only by its message, so renewing a lost lease would extend that of the newer attempt.
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

  /** Limits the uncertain deliveries to those that run: an attempt that has not begun reads its journal anyway. */
  doubtOnly(running: ReadonlySet<Delivery>): void {
    for (const delivery of this.#unsure) if (!running.has(delivery)) this.#unsure.delete(delivery)
  }

  isUnsure(delivery: Delivery): boolean {
    return this.#unsure.has(delivery)
  }

  /** Renews a lease after a read showed that it still belongs to this attempt. */
  renew(delivery: Delivery): void {
    this.#unsure.delete(delivery)
    if (this.#held.get(delivery.sequence)?.includes(delivery)) delivery.working()
  }
}
