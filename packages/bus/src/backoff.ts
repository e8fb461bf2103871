const MIN_MS = 50
const MAX_MS = 500

/** Waits that double up to a bound, each between half and the whole of it. */
export class Backoff {
  #next = MIN_MS

  wait(signal?: AbortSignal): Promise<void> {
    const ms = this.#next * (0.5 + Math.random() / 2)
    this.#next = Math.min(MAX_MS, this.#next * 2)
    return new Promise((resolve) => {
      if (signal?.aborted) return resolve()
      const done = () => {
        clearTimeout(timer)
        signal?.removeEventListener('abort', done)
        resolve()
      }
      const timer = setTimeout(done, ms)
      signal?.addEventListener('abort', done, { once: true })
    })
  }
}
