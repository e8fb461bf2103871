import type { Delivery } from '@passover/bus'
import { Pace } from './pace.js'
import { Share } from './share.js'

/** Deliveries whose root is remembered: about as many as wait at a time. The pass of any other is read again. */
const ROOTS_KEPT = 20_000

/**
 * What the deliveries of one durable share, so that no agent holds up the notices of others. Passes are read in turns of the agents that had the messages
 * stored, since a subagent may store returns in any originator's name. Notices are posted in turns of the originators at the roots of their passes.
 */
export class Lane {
  readonly reading: Share
  readonly posting: Share
  readonly pace = new Pace()
  readonly #roots = new Map<number, string>()

  constructor(places: number) {
    this.reading = new Share(places)
    this.posting = new Share(places)
  }

  /** Deliveries to take at a time, without their data: those in hand, and as many again that are given back at once. */
  get concurrency(): number {
    return 2 * (this.reading.room + this.posting.room)
  }

  /** Returns the root of a delivery that came before, if it is remembered. */
  rootOf({ sequence }: Delivery): string | undefined {
    return this.#roots.get(sequence)
  }

  /** Remembers the root of a delivery that will come again. */
  comesAgain({ sequence }: Delivery, root: string): void {
    this.#roots.set(sequence, root)
    for (const oldest of this.#roots.keys()) {
      if (this.#roots.size <= ROOTS_KEPT) break
      this.#roots.delete(oldest)
    }
  }

  over({ sequence }: Delivery): void {
    this.#roots.delete(sequence)
  }

  close(): void {
    this.reading.close()
    this.posting.close()
  }
}
