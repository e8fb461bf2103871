import type { StreamDelivery } from './delivery.js'

export interface SequentialDispatcherOptions {
  handle: (delivery: StreamDelivery) => void | Promise<void>
  onHandled: (delivery: StreamDelivery) => void
  /** Nothing is queued or being handled any more. */
  onIdle: () => void
  report: (error: unknown) => void
}

const RETRY_DELAY_MS = 1_000

/**
 * Hands messages to a handler in order, one at a time. One that throws is called again with the same message: nothing is skipped.
 * A handler that answers at once costs no promise.
 */
export class SequentialDispatcher {
  readonly #options: SequentialDispatcherOptions
  #queue: StreamDelivery[] = []
  #busy = false
  #closed = false
  /** What is handed on only when its doubt has settled. */
  readonly #doubts = new Map<StreamDelivery, Promise<void>>()
  /** The message whose doubt is waited for. */
  #held: StreamDelivery | undefined
  /** Sequence of the message that is being handled, or was last. */
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

  /** `doubt`: it and what follows wait until this has settled. It may call `clear`. It never rejects. */
  push(delivery: StreamDelivery, doubt?: Promise<void>): void {
    if (doubt) this.#doubts.set(delivery, doubt)
    this.#queue.push(delivery)
    if (!this.#busy) this.#work()
  }

  /** Forgets what is queued; what is being handled goes on. */
  clear(): void {
    this.#queue = []
    this.#doubts.clear()
    if (!this.#held) return
    this.#held = undefined
    this.#busy = false
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
    this.#held = delivery
    await doubt
    if (this.#held !== delivery) return
    this.#held = undefined
    this.#doubts.delete(delivery)
    this.#work()
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
        await new Promise((resolve) => setTimeout(resolve, RETRY_DELAY_MS).unref())
        if (this.#closed) return
        work = this.#hand(delivery)
      }
    }
    if (this.#queue[0] === delivery) this.#queue.shift()
    this.#work()
  }
}
