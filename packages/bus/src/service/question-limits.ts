import pLimit, { type LimitFunction } from 'p-limit'

/** Questions answered at a time, of all and of one asker; and how many more may wait. Each may read a pass of some megabytes. */
const RUNNING = 16
const RUNNING_AN_ASKER = 4
const WAITING = 512
const WAITING_AN_ASKER = 64

/** Bounds the questions under way, so that those of one asker neither fill the memory nor keep others waiting. */
export class QuestionLimits {
  readonly #all = pLimit(RUNNING)
  readonly #askers = new Map<string, { queue: LimitFunction; under: number }>()
  #under = 0

  /** Answers the question when it has its turn; undefined: too many wait, and it was not begun. */
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
