import type { StreamUsage } from '@passover/bus'
import type { BaseContext } from '../runtime/base-context.js'

/**
 * Fractions of the stream's byte limit. Above the high-water mark, requests are refused, so that returns always fit. Below the low-water
 * mark, they are accepted again.
 */
const HIGH_WATERMARK = 0.9
const LOW_WATERMARK = 0.8
/** Fraction above which usage is checked more often, because messages stored between two checks must fit above the high-water mark. */
const WARNING_LEVEL = 0.7
const CHECK_SPEEDUP = 8
/**
 * Estimated bytes by which a work step exceeds its request, including the server's overhead for each message. Also holds for an empty
 * context.
 */
const WORK_OVERHEAD_BYTES = 2_048
/** Bytes reserved for the return of each open pass and of each unanswered request, so that all of them can end. */
const RETURN_BYTES = 1_024
/** Bytes that may be admitted before the first usage check. */
const INITIAL_ALLOWANCE_BYTES = 262_144
/**
 * A dispatcher admits about 1/16 of the remaining room between two usage checks, so that it sees what other replicas admit. Up to 16 replicas
 * cannot exceed the room together.
 */
const SHARE_DIVISOR = 16
const RETRY_DELAY_MS = 50

/**
 * Backpressure that keeps room for returns (docs/architecture/storage.md#storage-backpressure). At the high-water mark it removes `request.>` from
 * the stream's subjects, so that publishers get an error immediately. Requests stored before that are not admitted if their work would exceed the
 * mark (decision 116). Every replica checks usage and makes the same change.
 */
export class StorageBackpressure {
  readonly #context: Pick<BaseContext, 'deps' | 'options'>
  readonly #open: () => number | undefined
  #timer: Disposable | undefined
  #stopped = false
  /** State of the request subjects at the last check. */
  state: 'open' | 'closed' = 'open'
  #used = 0
  /** Bytes below the high-water mark at the last check, and the share of them that may be admitted before the next check. */
  #room = INITIAL_ALLOWANCE_BYTES
  #share = INITIAL_ALLOWANCE_BYTES
  /** Total bytes reserved and total bytes released since the start, and both values at the beginning of the last check. */
  #reserved = 0
  #released = 0
  #atLastCheck = { reserved: 0, released: 0 }
  #checking: Promise<boolean> | undefined
  #applyingState: Promise<void> | undefined

  /**
   * Creates the backpressure. `open` returns the number of passes and requests without a return, or `undefined` if this replica does not know
   * it. Then this replica never opens the request subjects.
   */
  constructor(context: Pick<BaseContext, 'deps' | 'options'>, open: () => number | undefined) {
    this.#context = context
    this.#open = open
  }

  /**
   * Reserves room for the work of a request of this size. Returns true if the stream stays below the high-water mark. Checks usage first if the last
   * check is not enough to decide. After true, the caller calls `release` with the same number when the work is stored, or when it will not be stored.
   */
  reserve(request_bytes: number): boolean | Promise<boolean> {
    const bytes = request_bytes + WORK_OVERHEAD_BYTES
    if (!this.#isWithinShare(bytes)) return this.#reserveAfterCheck(bytes)
    this.#reserved += bytes
    return true
  }

  release(request_bytes: number): void {
    this.#released += request_bytes + WORK_OVERHEAD_BYTES
  }

  #isWithinShare(bytes: number): boolean {
    // The last request may exceed the share. Otherwise a request larger than the share would be admitted only if nothing else came between two
    // checks.
    if (this.#reserved - this.#atLastCheck.reserved >= this.#share) return false
    // The result of the last check may miss bytes that were in flight when it began, so add them.
    return this.#reserved - this.#atLastCheck.released + bytes <= this.#room
  }

  async #reserveAfterCheck(bytes: number): Promise<boolean> {
    for (;;) {
      // If the server does not answer, it stores nothing, so the request may proceed.
      const isAnswered = await this.#checkUsage()
      if (!isAnswered || this.#isWithinShare(bytes)) {
        this.#reserved += bytes
        return true
      }
      // Bytes in flight may be counted twice: in the usage and as reserved. Only a check after they are released shows whether there is room.
      if (bytes > this.#room) return false
      await new Promise<void>((resolve) => this.#context.deps.clock.after(RETRY_DELAY_MS, resolve))
    }
  }

  start(): void {
    this.#timer = this.#context.deps.clock.after(nextCheckDelay(this.#used, this.#context.options.water_ms), () => {
      void this.#checkUsage().finally(() => {
        if (!this.#stopped) this.start()
      })
    })
  }

  /** Stops the periodic checks. Requests that are still admitted while draining trigger checks themselves. */
  stop(): void {
    this.#stopped = true
    this.#timer?.[Symbol.dispose]()
  }

  /** Checks usage; concurrent callers share one check. Returns false if the server did not answer. */
  #checkUsage(): Promise<boolean> {
    this.#checking ??= this.#checkUsageNow().finally(() => {
      this.#checking = undefined
    })
    return this.#checking
  }

  async #checkUsageNow(): Promise<boolean> {
    const { bus, log } = this.#context.deps
    const before = { reserved: this.#reserved, released: this.#released }
    let usage: StreamUsage
    try {
      usage = await bus.usage()
    } catch (error) {
      log.warn({ err: error }, 'stream usage not read')
      // Without an answer, admit up to the last known room without another check. The next periodic check resets this.
      this.#share = this.#room
      return false
    }
    const { bytes, max_bytes, requests } = usage
    const open = this.#open()
    const promised = bytes + (open ?? 0) * RETURN_BYTES
    this.#used = max_bytes === undefined ? 0 : promised / max_bytes
    this.#room = max_bytes === undefined ? Number.POSITIVE_INFINITY : HIGH_WATERMARK * max_bytes - promised
    // The replica that closed the subjects may have counted open passes for which this one cannot reserve anything.
    if (requests === 'closed' && open === undefined) this.#room = 0
    this.#share = this.#room / SHARE_DIVISOR
    this.#atLastCheck = before
    // Not awaited: callers that ask for room need not wait for the change of the subjects.
    this.#applyingState ??= this.#applyIntakeState(usage).finally(() => {
      this.#applyingState = undefined
    })
    return true
  }

  async #applyIntakeState({ bytes, max_bytes, requests }: StreamUsage): Promise<void> {
    const { bus, log } = this.#context.deps
    const wanted = nextIntakeState(requests, this.#used)
    this.state = requests
    if (wanted === requests || (wanted === 'open' && this.#open() === undefined)) return
    try {
      await bus.setRequests(wanted)
      this.state = wanted
      const text = wanted === 'closed' ? 'stream nearly full; no requests are accepted' : 'requests are accepted again'
      log.warn({ bytes, max_bytes, requests: wanted }, text)
    } catch (error) {
      log.warn({ err: error, wanted }, 'subjects of the stream not changed')
    }
  }
}

/** Returns whether requests should be accepted at this usage. Between the two marks the state stays unchanged. */
export function nextIntakeState(requests: 'open' | 'closed', used: number): 'open' | 'closed' {
  if (used >= HIGH_WATERMARK) return 'closed'
  return used < LOW_WATERMARK ? 'open' : requests
}

/** Milliseconds until the next usage check, given the used fraction of the stream's limit. */
export function nextCheckDelay(used: number, every_ms: number): number {
  return used >= WARNING_LEVEL ? every_ms / CHECK_SPEEDUP : every_ms
}
