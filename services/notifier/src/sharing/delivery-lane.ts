import { type Delivery, NOTIFIER_PENDING } from '@passover/bus'
import { RateMeter } from './rate-meter.js'
import { SharedSlots } from './shared-slots.js'

/** Deliveries whose root is remembered: as many as wait at a time. The pass of any other is read again. */
const MAX_ROOTS = NOTIFIER_PENDING
/** Returns that are judged at a time, and deliveries in hand for each: to judge one takes a few small reads, and to have it delivered again takes longer. */
const JUDGE_CONCURRENCY = 64
const JUDGED_IN_HAND = 128
/** The same of workers that flood. */
const FLOODS_JUDGED = 4
const FLOODS_IN_HAND = 16
/** Returns of one worker that count for nothing or may, within a minute of the stream's time; a worker with more floods. */
const MAX_UNCOUNTED = 1_000

/**
 * What the deliveries of one durable share, so that no agent holds up the notices of others. Returns are judged, and passes read, in turns of the agents that had the
 * messages stored, since a subagent may store returns in any originator's name. Notices are posted in turns of the originators at the roots of their passes.
 */
export class DeliveryLane {
  readonly judging: SharedSlots
  readonly judgingFloods: SharedSlots
  readonly reading: SharedSlots
  readonly posting: SharedSlots
  readonly pace = new RateMeter()
  /** Of returns that count for nothing, or may. */
  readonly uncounted = new RateMeter(MAX_UNCOUNTED)
  readonly #roots = new Map<number, string>()

  /** `judges`: whether some of its messages may count for nothing. */
  constructor(places: number, { judges }: { judges: boolean }) {
    this.judging = new SharedSlots(judges ? JUDGE_CONCURRENCY : 0, JUDGED_IN_HAND)
    this.judgingFloods = new SharedSlots(judges ? FLOODS_JUDGED : 0, FLOODS_IN_HAND)
    this.reading = new SharedSlots(places)
    this.posting = new SharedSlots(places)
  }

  /** Deliveries to take at a time, without their data: those in hand, and as many again that are given back at once. The server gives no more than may wait. */
  get concurrency(): number {
    return Math.min(NOTIFIER_PENDING, 2 * (this.judging.room + this.reading.room + this.posting.room))
  }

  /** Returns the root of a delivery that came before, if it is remembered. */
  rootOf({ sequence }: Delivery): string | undefined {
    return this.#roots.get(sequence)
  }

  /** Remembers the root of a delivery that will come again. */
  comesAgain({ sequence }: Delivery, root: string): void {
    this.#roots.set(sequence, root)
    for (const oldest of this.#roots.keys()) {
      if (this.#roots.size <= MAX_ROOTS) break
      this.#roots.delete(oldest)
    }
  }

  over({ sequence }: Delivery): void {
    this.#roots.delete(sequence)
  }

  close(): void {
    this.judging.close()
    this.judgingFloods.close()
    this.reading.close()
    this.posting.close()
  }
}
