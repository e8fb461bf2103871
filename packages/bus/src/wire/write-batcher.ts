/** After a write of so many messages the next ones are in no hurry: more are gathered for so long, or until they are so many bytes. */
const HIGH_WATERMARK = 16
/** They are again when writes have had fewer than this, as far as the last ones tell: a dozen passes in flight make seven a write. */
const LOW_WATERMARK = 8
const LAST_WRITES = 8
/** And when so many in a row had fewer than this: what came in one go is over, and the next to write is somebody else. */
const SMALL_WRITE = 4
const MAX_SMALL_WRITES = 2
/** After a pause as long as this nobody is made to wait. */
const PAUSE_MS = 20

/** Whether what is written next may wait for more (decision 40). Times are monotonic ms. */
export class WriteBatcher {
  /** Messages of the last writes, the newest counting most (at most MANY). */
  #written = 0
  /** How many of the last writes had little. */
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
