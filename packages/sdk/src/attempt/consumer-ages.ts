import type { Delivery, WorkSource } from '@passover/bus'
import type { Priority } from '@passover/schemas'
import { FRESH_MS } from './decide-attempt.js'

interface Age {
  created: number | undefined
  /** Time of the request to the server, in monotonic ms. */
  asked_at: number
  asking: Promise<number | undefined> | undefined
  consumer_sequence: number
}

/**
 * Caches the creation times of the work consumers (docs/architecture/worker.md#begin-fence-or-leave). The dispatcher recreates a lost consumer no
 * sooner than 3 s after it noticed the loss. So an answer that is younger than 2 s is still valid, and work younger than 2 s cannot have been
 * delivered by an earlier consumer.
 */
export class ConsumerAges {
  readonly #sources: Record<Priority, WorkSource>
  readonly #monotonic: () => number
  readonly #ages = new Map<Priority, Age>()

  constructor(sources: Record<Priority, WorkSource>, monotonic: () => number) {
    this.#sources = sources
    this.#monotonic = monotonic
  }

  /** Records a delivery. If the delivery count of its consumer went backwards, the consumer was recreated and its creation time is discarded. */
  onDelivery(priority: Priority, delivery: Delivery): void {
    const age = this.#ages.get(priority)
    if (!age) return
    if (delivery.consumer_sequence <= age.consumer_sequence) this.#ages.delete(priority)
    else age.consumer_sequence = delivery.consumer_sequence
  }

  /** Returns the creation time if it is known without a request, else `undefined`. */
  cachedCreation(priority: Priority, delivery: Delivery, now: number): number | undefined {
    return now - delivery.time < FRESH_MS ? this.#ages.get(priority)?.created : undefined
  }

  /** Discards the creation time because the consumer is gone. */
  forget(priority: Priority): void {
    this.#ages.delete(priority)
  }

  /** Requests the creation time from the server, unless a request was made within the last 2 s. Throws the errors of reading. */
  async creation(priority: Priority): Promise<number | undefined> {
    const before = this.#ages.get(priority)
    const now = this.#monotonic()
    if (before?.asking) return before.asking
    if (before?.created !== undefined && now - before.asked_at < FRESH_MS) return before.created
    const asking = this.#sources[priority].created()
    const age: Age = { created: before?.created, asked_at: now, asking, consumer_sequence: before?.consumer_sequence ?? 0 }
    this.#ages.set(priority, age)
    try {
      age.created = await asking
      age.asking = undefined
      return age.created
    } catch (error) {
      if (this.#ages.get(priority) === age) this.#ages.delete(priority)
      throw error
    }
  }
}
