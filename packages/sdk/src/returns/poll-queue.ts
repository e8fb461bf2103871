import type { PendingReturn } from '../delivery/pending-return.js'

/** Reads under way at a time. */
const CONCURRENCY = 64
/** Begun in one sweep where nothing is urgent: a burst of slow passes must not keep the server busy with reads. */
const MAX_PER_SWEEP = 64

/** What is to be read, in the order in which it became due, so that none waits for ever behind others. */
export class PollQueue {
  readonly #look: (awaited: PendingReturn) => Promise<void>
  readonly #due = new Set<PendingReturn>()
  readonly #urgent = new Set<PendingReturn>()
  #running = 0
  #allowance = 0

  /** `look` may do nothing for what is over meanwhile; it must not throw. */
  constructor(look: (awaited: PendingReturn) => Promise<void>) {
    this.#look = look
  }

  add(awaited: PendingReturn): void {
    if (!awaited.polling && !this.#urgent.has(awaited)) this.#due.add(awaited)
  }

  /** Before all that is merely due. */
  hurry(awaited: PendingReturn): void {
    if (awaited.polling) return
    this.#due.delete(awaited)
    this.#urgent.add(awaited)
  }

  /** Whatever is due by now may be begun as fast as places get free. */
  catchUp(): void {
    this.#allowance = Math.max(this.#allowance, this.#due.size)
  }

  /** A read of these failed and is to be made again. */
  again(): void {
    this.#allowance += 1
  }

  sweep(): void {
    this.#allowance = Math.max(this.#allowance, MAX_PER_SWEEP)
    this.begin()
  }

  begin(): void {
    while (this.#running < CONCURRENCY) {
      const next = this.#next()
      if (!next) return
      if (!next.finished) void this.#run(next)
    }
  }

  #next(): PendingReturn | undefined {
    for (const awaited of this.#urgent) {
      this.#urgent.delete(awaited)
      return awaited
    }
    if (this.#allowance === 0) return undefined
    for (const awaited of this.#due) {
      this.#due.delete(awaited)
      this.#allowance -= 1
      return awaited
    }
    return undefined
  }

  async #run(awaited: PendingReturn): Promise<void> {
    awaited.polling = true
    this.#running += 1
    await this.#look(awaited)
    awaited.polling = false
    this.#running -= 1
    this.begin()
  }
}
