/**
 * Target number of deletions per second. It is several times what the product can serve, because a deletion takes longer than the call that is
 * measured, and each pass needs three deletions, one after the other.
 */
const TARGET_PER_SECOND = 40_000
/**
 * About 4 ms of server time. With fewer deletions in flight the server wakes up for each, at 50 µs per deletion instead of 25 µs with a hundred at
 * once (decision 71).
 */
const MIN_CONCURRENCY = 128
/** Enough for all passes of a segment. */
const MAX_CONCURRENCY = 1_536
const INITIAL_LATENCY_MS = 2
/** Weight of a new sample in the mean. There are two samples per segment, and load changes within seconds. */
const SAMPLE_WEIGHT = 1 / 2

/**
 * Determines how many deletions may be in flight. If answers arrive late because this process is busy reading, a fixed number would make the deleter
 * slowest when there is most to delete. The latency is measured with calls other than deletions: the server processes deletions one by one, and if
 * the server is the bottleneck, more of them would only delay other clients.
 */
export class AdaptiveConcurrency {
  #mean = INITIAL_LATENCY_MS

  /** Adds the latency of a call that is not a deletion. */
  recordLatency(ms: number): void {
    this.#mean += (ms - this.#mean) * SAMPLE_WEIGHT
  }

  /** Resets the mean after a failure, because the current latency is unknown. */
  restart(): void {
    this.#mean = INITIAL_LATENCY_MS
  }

  get concurrency(): number {
    return Math.min(MAX_CONCURRENCY, Math.max(MIN_CONCURRENCY, Math.ceil((TARGET_PER_SECOND * this.#mean) / 1_000)))
  }
}
