import type { Context } from './context.js'

/** Above this part of the stream's byte limit nobody takes requests, so that returns always fit; below the other one they do again. */
const HIGH = 0.9
const LOW = 0.8
/** From here on it is looked more often: what is stored between two looks must fit above the mark. */
const NEAR = 0.7
const OFTEN = 8

/**
 * Keeps room for returns (DESIGN §2 Retention): at the high-water mark `request.>` leaves the stream's subjects, so that
 * publishers hear at once that nobody takes requests. Every replica looks; the change is the same for all.
 */
export class WaterMark {
  readonly #context: Context
  #timer: Disposable | undefined
  #stopped = false
  /** Whether requests are taken, as last seen. */
  state: 'open' | 'closed' = 'open'
  #used = 0

  constructor(context: Context) {
    this.#context = context
  }

  start(): void {
    this.#timer = this.#context.deps.clock.after(lookAfter(this.#used, this.#context.options.water_ms), () => {
      void this.#look().finally(() => {
        if (!this.#stopped) this.start()
      })
    })
  }

  stop(): void {
    this.#stopped = true
    this.#timer?.[Symbol.dispose]()
  }

  async #look(): Promise<void> {
    const { bus, log } = this.#context.deps
    try {
      const { bytes, max_bytes, requests } = await bus.usage()
      this.#used = max_bytes === undefined ? 0 : bytes / max_bytes
      const wanted = nextState(requests, this.#used)
      this.state = requests
      if (wanted === requests) return
      await bus.setRequests(wanted)
      this.state = wanted
      log.warn(
        { bytes, max_bytes, requests: wanted },
        wanted === 'closed' ? 'stream nearly full: no requests are taken' : 'requests are taken again',
      )
    } catch (error) {
      log.warn({ err: error }, 'stream usage not read')
    }
  }
}

/** Between the marks it stays as it is. */
export function nextState(requests: 'open' | 'closed', used: number): 'open' | 'closed' {
  if (used >= HIGH) return 'closed'
  return used < LOW ? 'open' : requests
}

/** ms until the next look at a stream of which so much is used. */
export function lookAfter(used: number, every_ms: number): number {
  return used >= NEAR ? every_ms / OFTEN : every_ms
}
