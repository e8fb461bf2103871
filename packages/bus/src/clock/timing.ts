/** Local time, timers and randomness: of the machine, or of a simulation. All times in ms. */
export interface Timing {
  /** Local wall-clock time, ms since the epoch. */
  wall(): number
  /** Monotonic time, ms. */
  monotonic(): number
  /** Calls `fn` once after `ms`, without keeping the process alive. Disposing cancels the call. */
  after(ms: number, fn: () => void): Disposable
  /** Random number from 0 (included) to 1 (excluded). */
  chance(): number
}

export const machineTiming: Timing = {
  wall: () => Date.now(),
  monotonic: () => performance.now(),
  after: (ms, fn) => {
    const timer = setTimeout(fn, ms).unref()
    return { [Symbol.dispose]: () => clearTimeout(timer) }
  },
  chance: () => Math.random(),
}
