/**
 * Source of time. Only the entry points of processes create one; tests and the simulation pass in their own. The same applies to `Random` of
 * `@passover/schemas`.
 */
export interface Clock {
  /** The server's time, ms since 1970. */
  now(): number
  /** Milliseconds that never decrease, for measuring durations. */
  monotonic(): number
  /** Calls `fn` once after `ms` milliseconds; does not keep the process alive. Disposing it cancels the call. */
  after(ms: number, fn: () => void): Disposable
}
