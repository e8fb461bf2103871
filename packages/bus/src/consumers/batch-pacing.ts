import type { PullEnd } from '../types/deliveries.js'

/** Messages per millisecond above which batches are cheaper than waiting for each message: 300 passes a second. */
const BATCHING_RATE = 1
const REST_MS = 10
/** Number of consecutive batches below half the expected size after which batching ends. A publisher may pause for one or two. */
const MAX_SMALL_BATCHES = 3

/** Result of a pull: how it ended, how many messages came in how many ms, and whether it was a no-wait batch. */
export interface Pulled {
  end: PullEnd
  is_gulp: boolean
  came: number
  ms: number
}

/**
 * Decides when a reader fetches stored messages in batches (decision 13). A reader that waits for each message is woken, as is the server's writer,
 * some hundred times a second for a few messages each, which is costly on busy processors. In batch mode it fetches the available messages and then
 * pauses, so it lags by one pause at most; at lower rates it waits for each message again.
 */
export class BatchPacer {
  #on = false
  /** Number of consecutive small batches up to the last one. */
  #little = 0
  #rest: NodeJS.Timeout | undefined

  /** True if the next pull should only fetch messages that are already available. */
  get on(): boolean {
    return this.#on
  }

  /** True if no new pull should start: the reader pauses, or an earlier pull is still open. */
  waits(outstanding: number): boolean {
    return this.#rest !== undefined || (this.#on && outstanding > 0)
  }

  /** Records the end of a pull, and calls `next` after the pause, if there is one. */
  after({ end, is_gulp, came, ms }: Pulled, next: () => void): void {
    this.#little = is_gulp && 2 * came < BATCHING_RATE * REST_MS ? this.#little + 1 : 0
    this.#on = is_gulp ? this.#little < MAX_SMALL_BATCHES : end === 'full' && came >= BATCHING_RATE * ms
    // A full batch left messages behind: no pause.
    if (!this.#on || (is_gulp && end === 'full')) return
    clearTimeout(this.#rest)
    this.#rest = setTimeout(() => {
      this.#rest = undefined
      next()
    }, REST_MS)
  }

  stop(): void {
    clearTimeout(this.#rest)
    this.#rest = undefined
    this.#on = false
  }
}
