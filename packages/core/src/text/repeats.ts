const FIRST_MS = 10_000
const MAX_DELAY_MS = 600_000
/** Maximum number of lines that are tracked. More at the same time are a flood of different lines. */
const KEPT = 1_000

interface Told {
  /** Time at which it is logged again, ms. */
  next: number
  wait_ms: number
  left_out: number
}

/** Decides when a line that repeats is logged: at once, then after 10 seconds, and after twice as long each time, up to 10 minutes. */
export class Repeats {
  readonly #told = new Map<string, Told>()

  /**
   * Returns the number of equal lines left out since the last one was logged, or `undefined` if this one must be left out too.
   *
   * @param line - text that is the same for equal lines
   * @param now - a monotonic clock, ms
   */
  tell(line: string, now: number): number | undefined {
    const before = this.#told.get(line)
    if (before && now < before.next) {
      before.left_out++
      return undefined
    }
    // After a whole interval without the line, this is a new problem.
    const lasts = before !== undefined && now < before.next + before.wait_ms
    const wait_ms = lasts ? Math.min(MAX_DELAY_MS, 2 * before.wait_ms) : FIRST_MS
    this.#told.delete(line)
    if (this.#told.size >= KEPT) this.#forgetOldest()
    this.#told.set(line, { next: now + wait_ms, wait_ms, left_out: 0 })
    return before?.left_out ?? 0
  }

  #forgetOldest(): void {
    const [oldest] = this.#told.keys()
    if (oldest !== undefined) this.#told.delete(oldest)
  }
}
