/** Deletions a second that are aimed at: more than the messages of what the product can serve (DESIGN §2, Measured). */
const A_SECOND = 10_000
const LEAST = 32
/** All passes of a segment. */
const MOST = 1_536
const FIRST_MS = 2
/** Of one more measure in the mean: there are two a segment, and a load comes within seconds. */
const WEIGHT = 1 / 2

/**
 * How many deletions may be under way. Where answers come late, since this process is busy with what it reads, a fixed number would make the
 * deleter slowest when there is most to delete. How late is measured by other calls: the server works deletions off one by one, and where
 * it is the slow one, more of them would only keep others waiting.
 */
export class DeletionPace {
  private mean = FIRST_MS

  /** What is no deletion was answered after so long. */
  took(ms: number): void {
    this.mean += (ms - this.mean) * WEIGHT
  }

  /** It failed: nothing is known of how late answers come now. */
  restart(): void {
    this.mean = FIRST_MS
  }

  get width(): number {
    return Math.min(MOST, Math.max(LEAST, Math.ceil((A_SECOND * this.mean) / 1_000)))
  }
}
