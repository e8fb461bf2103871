const FIRST_MS = 10_000
const MAX_DELAY_MS = 600_000
/** More lines than these at once are a flood of different ones. */
const KEPT = 1_000

interface Told {
  /** When it is logged again, ms. */
  next: number
  wait_ms: number
  left_out: number
}

/** Decides when a line that repeats is logged: at once, then after 10 seconds, and after twice as long each time, up to 10 minutes. */
export class Repeats {
  readonly #told = new Map<string, Told>()

  /**
   * Returns how many equal lines were left out since the last one that was logged; undefined: leave this one out too.
   *
   * @param line what two equal lines have in common
   * @param now a clock that never goes back, ms
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
