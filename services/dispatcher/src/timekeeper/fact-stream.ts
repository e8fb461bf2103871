import type { StoredMessage, StreamSubscription } from '@passover/bus'
import type { Fact } from '@passover/schemas'
import type { DispatcherDeps } from '../runtime/dependencies.js'

const RETRY_MS = 1_000

/** Receives what a {@link FactStream} reads. */
export interface FactHandler {
  apply(fact: Fact): void
  /** Called when all messages stored at the start have been passed on. */
  caughtUp(): void
  /** Called if the stream rolled back or was replaced. Everything passed on so far is invalid and is read again. */
  onRollback(): void
}

/** Reads the headers of all messages of the stream in order, from a position on, without end. */
export class FactStream implements AsyncDisposable {
  readonly #deps: DispatcherDeps
  readonly #handler: FactHandler
  #subscription: StreamSubscription | undefined
  /** Number of the current reader. Messages that an earlier reader still delivers are ignored. */
  #reader = 0
  #restarting: Promise<void> | undefined
  #removeListener: (() => void) | undefined
  #stopped = false
  #position: number
  #time: number

  constructor(deps: DispatcherDeps, handler: FactHandler, from: { position: number; time: number }) {
    this.#deps = deps
    this.#handler = handler
    this.#position = from.position
    this.#time = from.time
  }

  /** Starts reading. Throws if the first attempt fails; later failures are retried until reading succeeds. */
  async begin(): Promise<this> {
    await this.#follow()
    this.#removeListener = this.#deps.bus.onReconnect(() => void this.#verify())
    return this
  }

  /** Sequence and server time of the last message passed on. */
  get position(): number {
    return this.#position
  }

  get time(): number {
    return this.#time
  }

  /** Reason why the stream is not being read at the moment. */
  get trouble(): string | undefined {
    return this.#subscription?.trouble
  }

  get caughtUp(): Promise<void> {
    return this.#subscription?.caughtUp ?? Promise.resolve()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopped = true
    this.#reader++
    this.#removeListener?.()
    await this.#subscription?.[Symbol.asyncDispose]()
  }

  async #follow(): Promise<void> {
    const { bus } = this.#deps
    // No filters: with several, the server searches all subjects of a block for each message of a backlog
    // (docs/architecture/storage.md#why-one-filter-each).
    const reader = ++this.#reader
    const receive = (stored: StoredMessage, fact: Fact) => (reader === this.#reader ? this.#receive(stored, fact) : undefined)
    this.#subscription = await bus.follow({ from: this.#position + 1, headers_only: true }, receive)
    void this.#subscription.caughtUp.then(() => {
      if (reader === this.#reader) this.#handler.caughtUp()
    })
  }

  #receive(stored: StoredMessage, fact: Fact): Promise<void> | undefined {
    // After a rollback, the subscription continues automatically at the new end of the stream.
    if (stored.sequence <= this.#position) return this.#restartOnce()
    this.#position = stored.sequence
    this.#time = stored.time
    this.#handler.apply(fact)
    return undefined
  }

  #restartOnce(): Promise<void> {
    this.#restarting ??= this.#restart().finally(() => {
      this.#restarting = undefined
    })
    return this.#restarting
  }

  async #restart(): Promise<void> {
    const { log, clock } = this.#deps
    log.warn({ position: this.#position }, 'stream rolled back; reading it from the beginning')
    this.#reader++
    this.#position = 0
    this.#handler.onRollback()
    await this.#subscription?.[Symbol.asyncDispose]()
    while (!this.#stopped) {
      try {
        return await this.#follow()
      } catch (error) {
        log.error({ err: error }, 'timekeeper cannot read the stream; retrying')
        await new Promise<void>((resolve) => clock.after(RETRY_MS, resolve))
      }
    }
  }

  /** Verifies after a reconnect that the stream is the same one and not an older copy: it must have the same message at the current position. */
  async #verify(): Promise<void> {
    const { bus, clock, log } = this.#deps
    const [position, time, reader] = [this.#position, this.#time, this.#reader]
    if (position === 0 || this.#stopped) return
    try {
      const stored = await bus.journal.message(position)
      const isOther = stored ? stored.time !== time : (await bus.bounds()).last < position
      if (isOther && reader === this.#reader) await this.#restartOnce()
    } catch (error) {
      log.warn({ err: error }, 'position in the stream not verified yet')
      clock.after(RETRY_MS, () => void this.#verify())
    }
  }
}
