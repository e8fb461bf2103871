import type { PendingReturn } from '../delivery/pending-return.js'

/** Maximum number of concurrent reads. */
const CONCURRENCY = 64
/** Maximum number of non-urgent reads that one sweep starts. A burst of slow passes must not keep the server busy with reads. */
const MAX_PER_SWEEP = 64

/** Queue of awaited passes whose journal is due to be read. First in, first out, so that no pass waits forever behind others. */
export class PollQueue {
  readonly #look: (awaited: PendingReturn) => Promise<void>
  readonly #due = new Set<PendingReturn>()
  readonly #urgent = new Set<PendingReturn>()
  #running = 0
  #allowance = 0

  /** Creates the queue. `look` reads one journal. It may skip a pass that has finished meanwhile, and it must not throw. */
  constructor(look: (awaited: PendingReturn) => Promise<void>) {
    this.#look = look
  }

  add(awaited: PendingReturn): void {
    if (!awaited.polling && !this.#urgent.has(awaited)) this.#due.add(awaited)
  }

  /** Moves a pass ahead of all that are merely due. */
  hurry(awaited: PendingReturn): void {
    if (awaited.polling) return
    this.#due.delete(awaited)
    this.#urgent.add(awaited)
  }

  /** Allows all reads that are due now to start as soon as there is capacity. */
  catchUp(): void {
    this.#allowance = Math.max(this.#allowance, this.#due.size)
  }

  /** Allows one more read, to repeat a failed one. */
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
