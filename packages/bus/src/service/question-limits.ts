import pLimit, { type LimitFunction } from 'p-limit'

/**
 * Maximum number of requests that are answered concurrently, in total and per asker, and that may wait in addition. Each may read a pass of some
 * megabytes.
 */
const RUNNING = 16
const RUNNING_AN_ASKER = 4
const WAITING = 512
const WAITING_AN_ASKER = 64

/** Limits pending requests, so that one asker can neither fill the memory nor block the others. */
export class QuestionLimits {
  readonly #all = pLimit(RUNNING)
  readonly #askers = new Map<string, { queue: LimitFunction; under: number }>()
  #under = 0

  /** Answers the request when it is its turn. Returns `undefined` without starting if too many are waiting. */
  async take<T>(asker: string, answer: () => Promise<T>): Promise<T | undefined> {
    const known = this.#askers.get(asker) ?? { queue: pLimit(RUNNING_AN_ASKER), under: 0 }
    if (known.under >= RUNNING_AN_ASKER + WAITING_AN_ASKER || this.#under >= RUNNING + WAITING) return undefined
    this.#askers.set(asker, known)
    known.under++
    this.#under++
    try {
      return await known.queue(() => this.#all(answer))
    } finally {
      this.#under--
      if (--known.under === 0) this.#askers.delete(asker)
    }
  }
}
