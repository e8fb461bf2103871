import { type Delivery, NOTIFIER_PENDING } from '@passover/bus'
import { RateMeter } from './rate-meter.js'
import { SharedSlots } from './shared-slots.js'

/** Maximum number of deliveries whose root is remembered: as many as can be pending. For any other delivery the pass is read again. */
const MAX_ROOTS = NOTIFIER_PENDING
/** Number of returns judged concurrently. */
const JUDGE_CONCURRENCY = 64
/** Number of waiting or running deliveries for each of them. Judging takes a few small reads, less than another delivery of a return. */
const JUDGED_IN_HAND = 128
/** Number of returns judged concurrently for workers that flood. */
const FLOODS_JUDGED = 4
/** Number of waiting or running deliveries for each of them. */
const FLOODS_IN_HAND = 16
/** Number of returns within a minute of stream time, not counting or possibly not counting, above which a worker floods. */
const MAX_UNCOUNTED = 1_000

/**
 * Resources shared by the deliveries of one durable, so that no agent delays the notices of others. Judging returns and reading passes is shared
 * between the agents that caused the messages, since a subagent may store returns in the name of any originator. Posting notices is shared between
 * the originators at the roots of the passes.
 */
export class DeliveryLane {
  readonly judging: SharedSlots
  readonly judgingFloods: SharedSlots
  readonly reading: SharedSlots
  readonly posting: SharedSlots
  readonly meter = new RateMeter()
  /** Counts returns that do not count, or may not. */
  readonly uncounted = new RateMeter(MAX_UNCOUNTED)
  readonly #roots = new Map<number, string>()

  /** `judges` is true if some messages of the durable may not count. */
  constructor(places: number, { judges }: { judges: boolean }) {
    this.judging = new SharedSlots(judges ? JUDGE_CONCURRENCY : 0, JUDGED_IN_HAND)
    this.judgingFloods = new SharedSlots(judges ? FLOODS_JUDGED : 0, FLOODS_IN_HAND)
    this.reading = new SharedSlots(places)
    this.posting = new SharedSlots(places)
  }

  /**
   * Number of deliveries to take at a time, without their data: those that wait or run, and as many again that are returned at once. Limited to
   * what the server allows to be pending.
   */
  get concurrency(): number {
    return Math.min(NOTIFIER_PENDING, 2 * (this.judging.room + this.reading.room + this.posting.room))
  }

  /** Returns the root of an earlier delivery of the same message, if it is remembered. */
  rootOf({ sequence }: Delivery): string | undefined {
    return this.#roots.get(sequence)
  }

  /** Remembers the root of a message that will be delivered again. */
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
