import type { StreamDelivery } from './delivery.js'

export interface HandingOptions {
  handle: (delivery: StreamDelivery) => void | Promise<void>
  onHandled: (delivery: StreamDelivery) => void
  /** Nothing is queued or being handled any more. */
  onIdle: () => void
  report: (error: unknown) => void
}

const THROWN_MS = 1_000

/**
 * Hands messages to a handler in order, one at a time. One that throws is called again with the same message: nothing is skipped.
 * A handler that answers at once costs no promise.
 */
export class Handing {
  readonly #options: HandingOptions
  #queue: StreamDelivery[] = []
  #busy = false
  #closed = false
  /** Sequence of the message that is being handled, or was last. */
  #taken = 0

  constructor(options: HandingOptions) {
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

  push(delivery: StreamDelivery): void {
    this.#queue.push(delivery)
    if (!this.#busy) this.#work()
  }

  /** Forgets what is queued; what is being handled goes on. */
  clear(): void {
    this.#queue = []
  }

  /** Sequences begin anew: the stream is another one. */
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

  /** Undefined when the message was handled. */
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
        await new Promise((resolve) => setTimeout(resolve, THROWN_MS).unref())
        if (this.#closed) return
        work = this.#hand(delivery)
      }
    }
    if (this.#queue[0] === delivery) this.#queue.shift()
    this.#work()
  }
}
