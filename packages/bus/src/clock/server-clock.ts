import { machineTiming, type Timing } from './timing.js'

/** One look at the server's clock, with when it was asked and answered by the monotonic clock. All ms. */
export interface ClockSample {
  time: number
  asked: number
  answered: number
}

/** An answer that took longer says too little: the server read its clock somewhere in between. */
const MAX_ROUND_TRIP_MS = 250
/** By how much two clocks may part in a ms: a good sample gets worse with age. */
const DRIFT = 200e-6

/**
 * The server's time, counted on by the monotonic clock so that a jump of the local clock does not matter.
 * Before the first measure it is the local clock's.
 */
export class ServerClock {
  readonly #timing: Timing
  #base: number
  #measured = false
  #known = false
  /** How far the sample in use may be off, and when it was taken. */
  #error = 0
  #taken = 0

  constructor(timing: Timing = machineTiming) {
    this.#timing = timing
    this.#base = timing.wall() - timing.monotonic()
  }

  now(): number {
    return Math.floor(this.#base + this.#timing.monotonic())
  }

  /** Whether a good sample was taken since the start or the last `doubt`. */
  get measured(): boolean {
    return this.#measured
  }

  /** Whether any sample was ever taken. Until then `now` is the local clock. */
  get known(): boolean {
    return this.#known
  }

  /** By how much the sample in use may have been off when it was taken, either way. */
  get uncertain_ms(): number {
    return this.#error
  }

  /** Server ms at a moment of the monotonic clock. */
  at(monotonic: number): number {
    return Math.floor(this.#base + monotonic)
  }

  /** Another server may answer from now on: the next sample counts whatever the last one said. */
  doubt(): void {
    this.#measured = false
  }

  /** Takes a sample where it is better than what is known; false when its round trip was too long to tell. */
  take({ time, asked, answered }: ClockSample): boolean {
    if (!Number.isFinite(time)) return false
    this.#known = true
    const error = (answered - asked) / 2
    if (error * 2 > MAX_ROUND_TRIP_MS) {
      // Rather behind than ahead: who is ahead ends a pass before its time.
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

  /** Both samples agree, and the one in use is still the more exact. If they contradict each other, the server's clock was set. */
  #knowsBetter(base: number, error: number, now: number): boolean {
    const known = this.#error + (now - this.#taken) * DRIFT
    return known < error && Math.abs(base - this.#base) <= known + error
  }
}
