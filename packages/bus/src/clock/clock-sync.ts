import { BusReadError } from '../types/errors.js'
import { ServerClock } from './server-clock.js'
import { machineTiming, type Timing } from './timing.js'

interface TimeSources {
  /** The server's time in the stream's info; throws BusReadError. */
  stream: () => Promise<number>
  /** The answer of the service behind `ask`, for those who may not ask for the stream's info. */
  service: (timeout_ms: number) => Promise<unknown>
}

const INTERVAL_MS = 60_000
/** While it is known by slow answers alone: those of a busy moment are soon over, those of a long way never. */
const SLOW_INTERVAL_MS = 10_000
const RETRY_DELAY_MS = 2_000
/** Of an answer this quick the half is no matter to anybody. */
const QUICK_MS = 20
/** Samples for one measure, unless one was quick: the next one mostly is, and the clock keeps the best. */
const SAMPLES = 3
const SERVICE_TIMEOUT_MS = 1_000

/** Measures the server's clock now and every minute, sooner while nobody tells it, or the stream tells it slowly. */
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

  /** Measures, and goes on measuring until stopped. */
  async keep(): Promise<void> {
    this.#timer?.[Symbol.dispose]()
    const known = (await this.measure().catch(() => false)) || this.#spares
    this.#timer?.[Symbol.dispose]()
    if (!this.#stopped) this.#timer = this.#timing.after(known ? this.#rest_ms : RETRY_DELAY_MS, () => void this.keep())
  }

  /** One service answers everybody: who has the time from it does not ask it the more for being slow. */
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

  /** False when nobody told the time, or not quickly enough to be believed. */
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
