import { ServerClock } from './clock.js'
import { BusReadError } from './errors.js'

interface TimeSources {
  /** The server's time in the stream's info; throws BusReadError. */
  stream: () => Promise<number>
  /** The answer of the service behind `ask`, for those who may not ask for the stream's info. */
  service: (timeout_ms: number) => Promise<unknown>
}

const EVERY_MS = 60_000
const AGAIN_MS = 2_000
/** Samples for one measure: a round trip that took long says nothing, and the next one is mostly quick. */
const SAMPLES = 3
const SERVICE_TIMEOUT_MS = 1_000

/** Measures the server's clock now and every minute, sooner while nobody tells it. */
export class ClockKeeper {
  readonly clock = new ServerClock()
  readonly #sources: TimeSources
  #from: 'stream' | 'service' = 'stream'
  #timer: NodeJS.Timeout | undefined
  #stopped = false

  constructor(sources: TimeSources) {
    this.#sources = sources
  }

  /** Measures, and goes on measuring until stopped. */
  async keep(): Promise<void> {
    clearTimeout(this.#timer)
    const known = await this.measure().catch(() => false)
    clearTimeout(this.#timer)
    if (!this.#stopped) this.#timer = setTimeout(() => void this.keep(), known ? EVERY_MS : AGAIN_MS).unref()
  }

  stop(): void {
    this.#stopped = true
    clearTimeout(this.#timer)
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
    for (let sample = 0; sample < SAMPLES; sample += 1) {
      const asked = performance.now()
      const time = await tell()
      if (!Number.isFinite(time)) return false
      if (this.clock.take({ time, asked, answered: performance.now() })) return true
    }
    return false
  }
}

function timeIn(answer: unknown): number {
  const now = typeof answer === 'object' && answer !== null ? (answer as { now?: unknown }).now : undefined
  return typeof now === 'number' ? now : Number.NaN
}
