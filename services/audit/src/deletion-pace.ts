/** Deletions a second that are aimed at: more than the messages of what the product can serve (DESIGN §2, Measured). */
const A_SECOND = 10_000
const LEAST = 16
/** The server works them off one by one: whoever asks it for something else meanwhile stands behind so many. */
const MOST = 512
const FIRST_MS = 2
/** Of one more measure in the mean. */
const WEIGHT = 1 / 64

/**
 * How many deletions may be under way. Where answers come late, since this process is busy with what it reads, a fixed number would make the
 * deleter slowest when there is most to delete.
 */
export class DeletionPace {
  private mean = FIRST_MS

  /** One took so long. */
  took(ms: number): void {
    this.mean += (ms - this.mean) * WEIGHT
  }

  get width(): number {
    return Math.min(MOST, Math.max(LEAST, Math.ceil((A_SECOND * this.mean) / 1_000)))
  }
}
