import type { Clock } from '@passover/core'

/** Waits for `work`, for at most so long; it goes on by itself. */
export function within(clock: Clock, ms: number, work: Promise<unknown>): Promise<void> {
  return new Promise((resolve) => {
    const timer = clock.after(ms, resolve)
    void work.finally(() => {
      timer[Symbol.dispose]()
      resolve()
    })
  })
}
