/**
 * Time as it is handed in: only mains make one, so that tests and the simulation bring their own.
 * `Random` likewise comes from `@passover/schemas`.
 */
export interface Clock {
  /** The server's time, ms since 1970. */
  now(): number
  /** Ms that never go back, for measuring how long something took. */
  monotonic(): number
  /** Calls `fn` once after `ms`; keeps no process alive. Disposing it cancels the call. */
  after(ms: number, fn: () => void): Disposable
}
