import { machineTiming, type Timing } from './timing.js'

/** One sample of the server's clock, with the monotonic times of request and answer. All in ms. */
export interface ClockSample {
  time: number
  asked: number
  answered: number
}

/** Maximum round-trip time of a usable sample. The server reads its clock at an unknown moment of the round trip. */
const MAX_ROUND_TRIP_MS = 250
/** Assumed drift between two clocks in ms per ms: a sample becomes less accurate with age. */
const DRIFT = 200e-6

/**
 * Server time, advanced by the monotonic clock so that a jump of the local clock has no effect. Before the first measurement it is the local time.
 */
export class ServerClock {
  readonly #timing: Timing
  #base: number
  #measured = false
  #known = false
  /** Maximum error of the current sample, ms, and the monotonic time at which it was taken. */
  #error = 0
  #taken = 0

  constructor(timing: Timing = machineTiming) {
    this.#timing = timing
    this.#base = timing.wall() - timing.monotonic()
  }

  now(): number {
    return Math.floor(this.#base + this.#timing.monotonic())
  }

  /** True if a usable sample was taken since the start or the last `doubt`. */
  get measured(): boolean {
    return this.#measured
  }

  /** True if any sample was ever taken. Until then `now` is the local clock. */
  get known(): boolean {
    return this.#known
  }

  /** Maximum error of the current sample in either direction when it was taken, ms. */
  get uncertain_ms(): number {
    return this.#error
  }

  /** Returns the server time (ms) at a moment of the monotonic clock. */
  at(monotonic: number): number {
    return Math.floor(this.#base + monotonic)
  }

  /** Marks the current sample as doubtful, since another server may answer from now on: the next sample replaces it. */
  doubt(): void {
    this.#measured = false
  }

  /** Adopts a sample if it is better than the current one. Returns false if its round trip was too long. */
  take({ time, asked, answered }: ClockSample): boolean {
    if (!Number.isFinite(time)) return false
    this.#known = true
    const error = (answered - asked) / 2
    if (error * 2 > MAX_ROUND_TRIP_MS) {
      // Rather behind than ahead: a clock that is ahead would end a pass before its deadline.
      if (!this.#measured) this.#base = time - answered
      return false
    }
    const base = time - (asked + answered) / 2
    if (this.#measured && this.#knowsBetter(base, error, answered)) return true
    this.#base = base
    this.#error = error
    this.#taken = answered
    this.#measured = true
    return true
  }

  /** Returns true if both samples agree and the current one is still more accurate. If they contradict each other, the server's clock was set. */
  #knowsBetter(base: number, error: number, now: number): boolean {
    const known = this.#error + (now - this.#taken) * DRIFT
    return known < error && Math.abs(base - this.#base) <= known + error
  }
}
