/** Deletions a second that are aimed at: several times what the product can serve, since a deletion takes longer than the call that is measured, and each pass has three, one after the other. */
const TARGET_PER_SECOND = 40_000
/** Some 4 ms of the server's time. With fewer it is woken for each: 50 µs of it a deletion, and 25 in a hundred at once (decision 71). */
const MIN_CONCURRENCY = 128
/** All passes of a segment. */
const MAX_CONCURRENCY = 1_536
const INITIAL_LATENCY_MS = 2
/** Of one more measure in the mean: there are two a segment, and a load comes within seconds. */
const SAMPLE_WEIGHT = 1 / 2

/**
 * How many deletions may be under way. Where answers come late, since this process is busy with what it reads, a fixed number would make the
 * deleter slowest when there is most to delete. How late is measured by other calls: the server works deletions off one by one, and where
 * it is the slow one, more of them would only keep others waiting.
 */
export class AdaptiveConcurrency {
  private mean = INITIAL_LATENCY_MS

  /** What is no deletion was answered after so long. */
  recordLatency(ms: number): void {
    this.mean += (ms - this.mean) * SAMPLE_WEIGHT
  }

  /** It failed: nothing is known of how late answers come now. */
  restart(): void {
    this.mean = INITIAL_LATENCY_MS
  }

  get concurrency(): number {
    return Math.min(MAX_CONCURRENCY, Math.max(MIN_CONCURRENCY, Math.ceil((TARGET_PER_SECOND * this.mean) / 1_000)))
  }
}
