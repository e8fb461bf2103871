/** Local time and chance of a process: the machine's, or what a simulation brings. All ms. */
export interface Timing {
  /** What the local clock shows, since 1970. */
  wall(): number
  /** Never goes back. */
  monotonic(): number
  /** Calls `fn` once after `ms`; keeps no process alive. Disposing it cancels the call. */
  after(ms: number, fn: () => void): Disposable
  /** From 0 to below 1. */
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
