import type { StreamDelivery } from './delivery.js'

export interface SequentialDispatcherOptions {
  handle: (delivery: StreamDelivery) => void | Promise<void>
  onHandled: (delivery: StreamDelivery) => void
  /** Called when no message is queued or being handled. */
  onIdle: () => void
  report: (error: unknown) => void
}

const RETRY_DELAY_MS = 1_000

/**
 * Passes messages to a handler in order, one at a time. If the handler throws, it is called again with the same message, so nothing is skipped. A
 * synchronous handler costs no promise.
 */
export class SequentialDispatcher {
  readonly #options: SequentialDispatcherOptions
  #queue: StreamDelivery[] = []
  #busy = false
  #closed = false
  /** Checks that must settle before their delivery is handled. */
  readonly #doubts = new Map<StreamDelivery, Promise<void>>()
  /** Sequence of the message being handled, or of the last one. */
  #taken = 0

  constructor(options: SequentialDispatcherOptions) {
    this.#options = options
  }

  get taken(): number {
    return this.#taken
  }

  get length(): number {
    return this.#queue.length
  }

  get idle(): boolean {
    return !this.#busy && this.#queue.length === 0
  }

  /**
   * Queues a delivery. With `doubt`, it and all later ones wait until that promise has settled. The promise must not reject; its code may call
   * `clear`.
   */
  push(delivery: StreamDelivery, doubt?: Promise<void>): void {
    if (doubt) this.#doubts.set(delivery, doubt)
    this.#queue.push(delivery)
    if (!this.#busy) this.#work()
  }

  /** Drops the queued messages. The message being handled is completed. */
  clear(): void {
    const [first] = this.#queue
    // The first one is not being handled if it still waits for its check.
    if (first && this.#doubts.has(first)) this.#busy = false
    this.#queue = []
    this.#doubts.clear()
  }

  /** Resets the sequence, since the stream is another one. */
  forget(): void {
    this.#taken = 0
  }

  close(): void {
    this.#closed = true
    this.clear()
  }

  #work(): void {
    this.#busy = true
    const queue = this.#queue
    let done = 0
    while (done < queue.length && queue === this.#queue) {
      const delivery = queue[done]
      if (!delivery) break
      const doubt = this.#doubts.size > 0 ? this.#doubts.get(delivery) : undefined
      if (doubt) {
        queue.splice(0, done)
        void this.#hold(delivery, doubt)
        return
      }
      const pending = this.#hand(delivery)
      if (pending) {
        queue.splice(0, done)
        void this.#wait(pending, delivery)
        return
      }
      done += 1
    }
    if (queue === this.#queue) queue.splice(0, done)
    this.#busy = false
    if (this.#queue.length > 0) this.#work()
    else this.#options.onIdle()
  }

  async #hold(delivery: StreamDelivery, doubt: Promise<void>): Promise<void> {
    await doubt
    // False if the delivery was dropped meanwhile.
    if (this.#doubts.delete(delivery)) this.#work()
  }

  /** Calls the handler. Returns `undefined` if the message was handled synchronously. */
  #hand(delivery: StreamDelivery): Promise<void> | undefined {
    this.#taken = delivery.sequence
    try {
      const pending = this.#options.handle(delivery)
      if (pending) return pending
      this.#options.onHandled(delivery)
      return undefined
    } catch (error) {
      return Promise.reject(error)
    }
  }

  async #wait(pending: Promise<void>, delivery: StreamDelivery): Promise<void> {
    for (let work: Promise<void> | undefined = pending; work; ) {
      try {
        await work
        this.#options.onHandled(delivery)
        break
      } catch (error) {
        this.#options.report(error)
        await new Promise((resolve) => setTimeout(resolve, RETRY_DELAY_MS).unref())
        if (this.#closed) return
        work = this.#hand(delivery)
      }
    }
    if (this.#queue[0] === delivery) this.#queue.shift()
    this.#work()
  }
}
