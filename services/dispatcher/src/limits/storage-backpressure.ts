import type { StreamUsage } from '@passover/bus'
import type { BaseContext } from '../runtime/base-context.js'

/** Above this part of the stream's byte limit nobody takes requests, so that returns always fit; below the other one they do again. */
const HIGH_WATERMARK = 0.9
const LOW_WATERMARK = 0.8
/** From here on it is looked more often: what is stored between two looks must fit above the mark. */
const WARNING_LEVEL = 0.7
const CHECK_SPEEDUP = 8
/** A work step is so much larger than its request, with what the server keeps of each message; also of a request without a context. */
const WORK_OVERHEAD_BYTES = 2_048
/** Kept for the return of each pass that is open and of each request that has no answer: what has been taken must end. */
const RETURN_BYTES = 1_024
/** So much does no harm before the first look. */
const INITIAL_ALLOWANCE_BYTES = 262_144
/** This part of the room is let through before it is looked again, and not at once: what others let through is to be seen then. So many may do it. */
const SHARE_DIVISOR = 16
const RETRY_DELAY_MS = 50

/**
 * Keeps room for returns (docs/architecture/storage.md#storage-backpressure): at the high-water mark `request.>` leaves the stream's subjects, so that
 * publishers hear at once that nobody takes requests; and what was asked for before that is not admitted beyond it, since its work would take
 * the room (decision 116). Every replica looks; the change is the same for all.
 */
export class StorageBackpressure {
  readonly #context: Pick<BaseContext, 'deps' | 'options'>
  readonly #open: () => number | undefined
  #timer: Disposable | undefined
  #stopped = false
  /** Whether requests are taken, as last seen. */
  state: 'open' | 'closed' = 'open'
  #used = 0
  /** Bytes below the mark at the last look, and how many more of them may be let through without another one: others store too. */
  #room = INITIAL_ALLOWANCE_BYTES
  #share = INITIAL_ALLOWANCE_BYTES
  /** All bytes that were let through, and of them those that are no more on their way; and both when the last look began. */
  #through = 0
  #over = 0
  #looked = { through: 0, over: 0 }
  #looking: Promise<boolean> | undefined
  #following: Promise<void> | undefined

  /** `open`: how many passes and requests have no return yet; undefined: that is not known here, and who does not know it opens nothing. */
  constructor(context: Pick<BaseContext, 'deps' | 'options'>, open: () => number | undefined) {
    this.#context = context
    this.#open = open
  }

  /**
   * Whether the work that a request of so many bytes asks for stays below the mark; where the last look does not say, it looks. Who may
   * admit it calls `release` with the same number when it is stored, or never will be.
   */
  reserve(request_bytes: number): boolean | Promise<boolean> {
    const bytes = request_bytes + WORK_OVERHEAD_BYTES
    if (!this.#isShared(bytes)) return this.#takesLooking(bytes)
    this.#through += bytes
    return true
  }

  release(request_bytes: number): void {
    this.#over += request_bytes + WORK_OVERHEAD_BYTES
  }

  #isShared(bytes: number): boolean {
    // The last one may go beyond the share: what is larger would else wait for a look during which nothing else comes.
    if (this.#through - this.#looked.through >= this.#share) return false
    // The last look may not have seen what was on its way when it began.
    return this.#through - this.#looked.over + bytes <= this.#room
  }

  async #takesLooking(bytes: number): Promise<boolean> {
    for (;;) {
      // Where the server does not answer nothing is stored either.
      const seen = await this.#look()
      if (!seen || this.#isShared(bytes)) {
        this.#through += bytes
        return true
      }
      // What is on its way may be in what was seen already: only a look after it is over says whether there is room beside it.
      if (bytes > this.#room) return false
      await new Promise<void>((later) => this.#context.deps.clock.after(RETRY_DELAY_MS, later))
    }
  }

  start(): void {
    this.#timer = this.#context.deps.clock.after(nextCheckDelay(this.#used, this.#context.options.water_ms), () => {
      void this.#look().finally(() => {
        if (!this.#stopped) this.start()
      })
    })
  }

  /** Looks only where it is asked from now on: who drains still admits what fits. */
  stop(): void {
    this.#stopped = true
    this.#timer?.[Symbol.dispose]()
  }

  /** False: the server did not say. */
  #look(): Promise<boolean> {
    this.#looking ??= this.#lookNow().finally(() => {
      this.#looking = undefined
    })
    return this.#looking
  }

  async #lookNow(): Promise<boolean> {
    const { bus, log } = this.#context.deps
    const looked = { through: this.#through, over: this.#over }
    let usage: StreamUsage
    try {
      usage = await bus.usage()
    } catch (error) {
      log.warn({ err: error }, 'stream usage not read')
      // Nobody waits for another answer while the room last seen is enough; the next look on time ends that.
      this.#share = this.#room
      return false
    }
    const { bytes, max_bytes, requests } = usage
    const open = this.#open()
    const promised = bytes + (open ?? 0) * RETURN_BYTES
    this.#used = max_bytes === undefined ? 0 : promised / max_bytes
    this.#room = max_bytes === undefined ? Number.POSITIVE_INFINITY : HIGH_WATERMARK * max_bytes - promised
    // Who closed them may have known of returns for which nothing could be kept here.
    if (requests === 'closed' && open === undefined) this.#room = 0
    this.#share = this.#room / SHARE_DIVISOR
    this.#looked = looked
    // Nobody who asks for room waits for this.
    this.#following ??= this.#follow(usage).finally(() => {
      this.#following = undefined
    })
    return true
  }

  async #follow({ bytes, max_bytes, requests }: StreamUsage): Promise<void> {
    const { bus, log } = this.#context.deps
    const wanted = nextIntakeState(requests, this.#used)
    this.state = requests
    if (wanted === requests || (wanted === 'open' && this.#open() === undefined)) return
    try {
      await bus.setRequests(wanted)
      this.state = wanted
      const text = wanted === 'closed' ? 'stream nearly full: no requests are taken' : 'requests are taken again'
      log.warn({ bytes, max_bytes, requests: wanted }, text)
    } catch (error) {
      log.warn({ err: error, wanted }, 'whether requests are taken was not changed')
    }
  }
}

/** Between the marks it stays as it is. */
export function nextIntakeState(requests: 'open' | 'closed', used: number): 'open' | 'closed' {
  if (used >= HIGH_WATERMARK) return 'closed'
  return used < LOW_WATERMARK ? 'open' : requests
}

/** ms until the next look at a stream of which so much is used. */
export function nextCheckDelay(used: number, every_ms: number): number {
  return used >= WARNING_LEVEL ? every_ms / CHECK_SPEEDUP : every_ms
}
