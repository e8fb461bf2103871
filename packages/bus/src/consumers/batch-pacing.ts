import type { PullEnd } from '../types/deliveries.js'

/** From so many messages a millisecond on, waiting for each costs more than it brings: 300 passes a second. */
const BATCHING_RATE = 1
const REST_MS = 10
/** So many gulps in a row that bring less than half as many: few come now. Who stores them may falter for one or two. */
const MAX_SMALL_BATCHES = 3

/** How a pull ended, what came meanwhile, and whether it asked only for what was there. */
export interface Pulled {
  end: PullEnd
  is_gulp: boolean
  came: number
  ms: number
}

/**
 * When a reader takes what is stored in gulps (decision 96). One that waits for each message is woken, and the server's writer with it, for a few messages
 * at a time, some hundred times a second: on busy processors each time costs somebody a turn. In gulps it asks for what is there, and rests.
 * Who reads so is behind by a rest at most; where fewer messages come, it waits for each as before.
 */
export class BatchPacer {
  #on = false
  /** How many of the last ones brought little. */
  #little = 0
  #rest: NodeJS.Timeout | undefined

  /** The next pull is to ask only for what is there. */
  get on(): boolean {
    return this.#on
  }

  /** Nothing is asked for now: it rests, or what it asked for before has not come yet. */
  waits(outstanding: number): boolean {
    return this.#rest !== undefined || (this.#on && outstanding > 0)
  }

  /** A pull ended; `next` is called after the rest, if there is one. */
  after({ end, is_gulp, came, ms }: Pulled, next: () => void): void {
    this.#little = is_gulp && 2 * came < BATCHING_RATE * REST_MS ? this.#little + 1 : 0
    this.#on = is_gulp ? this.#little < MAX_SMALL_BATCHES : end === 'full' && came >= BATCHING_RATE * ms
    // A gulp that was full left something behind.
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
