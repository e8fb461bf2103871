import { BusReadError } from '../types/errors.js'
import { ServerClock } from './server-clock.js'
import { machineTiming, type Timing } from './timing.js'

interface TimeSources {
  /** Reads the server's time from the stream's info. Throws BusReadError. */
  stream: () => Promise<number>
  /** Asks the service behind `ask` for the time, for clients that may not read the stream's info. */
  service: (timeout_ms: number) => Promise<unknown>
}

const INTERVAL_MS = 60_000
/** Interval while all answers so far were slow: slow answers of a busy moment are soon replaced, those over a long network path stay slow. */
const SLOW_INTERVAL_MS = 10_000
const RETRY_DELAY_MS = 2_000
/** Round-trip time in ms below which the uncertainty of half of it does not matter. */
const QUICK_MS = 20
/** Number of samples per measurement, unless one was quick. A further sample is mostly quicker, and the clock keeps the best. */
const SAMPLES = 3
const SERVICE_TIMEOUT_MS = 1_000

/** Measures the server's clock now and every minute; sooner after a failed or slow answer of the stream. */
export class ClockSync {
  readonly clock: ServerClock
  readonly #timing: Timing
  readonly #sources: TimeSources
  #from: 'stream' | 'service' = 'stream'
  #timer: Disposable | undefined
  #stopped = false

  constructor(sources: TimeSources, timing: Timing = machineTiming) {
    this.#timing = timing
    this.clock = new ServerClock(timing)
    this.#sources = sources
  }

  /** Measures, and repeats until stopped. */
  async keep(): Promise<void> {
    this.#timer?.[Symbol.dispose]()
    const known = (await this.measure().catch(() => false)) || this.#spares
    this.#timer?.[Symbol.dispose]()
    if (!this.#stopped) this.#timer = this.#timing.after(known ? this.#rest_ms : RETRY_DELAY_MS, () => void this.keep())
  }

  /** True if the time comes from the shared service: a slow answer must not lead to more requests to it. */
  get #spares(): boolean {
    return this.#from === 'service' && this.clock.measured
  }

  get #rest_ms(): number {
    return this.#spares || this.clock.uncertain_ms <= QUICK_MS / 2 ? INTERVAL_MS : SLOW_INTERVAL_MS
  }

  stop(): void {
    this.#stopped = true
    this.#timer?.[Symbol.dispose]()
  }

  /** Measures once. Resolves to false if no answer came, or not quickly enough to be used. */
  async measure(): Promise<boolean> {
    if (this.#from === 'stream') {
      try {
        return await this.#take(this.#sources.stream)
      } catch (error) {
        if (!(error instanceof BusReadError)) throw error
        if (error.reason !== 'permission') return false
        this.#from = 'service'
      }
    }
    return this.#take(async () => timeIn(await this.#sources.service(SERVICE_TIMEOUT_MS)))
  }

  async #take(tell: () => Promise<number>): Promise<boolean> {
    const samples = this.#spares ? 1 : SAMPLES
    let known = false
    for (let sample = 0; sample < samples; sample += 1) {
      const asked = this.#timing.monotonic()
      const time: number = await (known ? tell().catch(() => Number.NaN) : tell())
      const answered = this.#timing.monotonic()
      if (!Number.isFinite(time)) break
      known = this.clock.take({ time, asked, answered }) || known
      if (known && answered - asked <= QUICK_MS) break
    }
    return known
  }
}

function timeIn(answer: unknown): number {
  const now = typeof answer === 'object' && answer !== null ? (answer as { now?: unknown }).now : undefined
  return typeof now === 'number' ? now : Number.NaN
}
