import { machineTiming, type Timing } from './timing.js'

const MIN_MS = 50
const MAX_MS = 500

/** Exponential backoff from 50 ms to 500 ms, with jitter between half and all of each delay. */
export class Backoff {
  readonly #timing: Timing
  #next = MIN_MS

  constructor(timing: Timing = machineTiming) {
    this.#timing = timing
  }

  wait(signal?: AbortSignal): Promise<void> {
    const ms = this.#next * (0.5 + this.#timing.chance() / 2)
    this.#next = Math.min(MAX_MS, this.#next * 2)
    return new Promise((resolve) => {
      if (signal?.aborted) return resolve()
      const done = () => {
        timer[Symbol.dispose]()
        signal?.removeEventListener('abort', done)
        resolve()
      }
      const timer = this.#timing.after(ms, done)
      signal?.addEventListener('abort', done, { once: true })
    })
  }
}
