/** Number of messages in one write after which following writes are gathered. */
const HIGH_WATERMARK = 16
/** Average number of messages per write below which gathering stops: a dozen passes in flight make seven a write. */
const LOW_WATERMARK = 8
const LAST_WRITES = 8
/**
 * Gathering also stops after MAX_SMALL_WRITES writes in a row with fewer messages than this: the burst is over, and the next writer should not wait.
 */
const SMALL_WRITE = 4
const MAX_SMALL_WRITES = 2
/** Milliseconds without a write after which the next one is not delayed. */
const PAUSE_MS = 20

/** Decides whether the next write may wait for more messages (decision 13). Times are monotonic ms. */
export class WriteBatcher {
  /** Moving average of messages per write, capped at HIGH_WATERMARK. */
  #written = 0
  /** Number of consecutive small writes up to the last one. */
  #little = 0
  #wroteAt = Number.NEGATIVE_INFINITY

  wrote(messages: number, at: number): void {
    this.#written = messages >= HIGH_WATERMARK ? HIGH_WATERMARK : this.#written + (messages - this.#written) / LAST_WRITES
    this.#little = messages < SMALL_WRITE ? this.#little + 1 : 0
    if (this.#little >= MAX_SMALL_WRITES) this.#written = Math.min(this.#written, messages)
    this.#wroteAt = at
  }

  inNoHurry(at: number): boolean {
    return this.#written >= LOW_WATERMARK && at - this.#wroteAt < PAUSE_MS
  }
}
