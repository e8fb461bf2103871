import type { PendingReturn } from '../delivery/pending-return.js'

/** Maximum number of concurrent reads. */
const CONCURRENCY = 64
/** Maximum number of non-urgent reads that one sweep starts. A burst of slow passes must not keep the server busy with reads. */
const MAX_PER_SWEEP = 64

/** Queue of awaited passes whose journal is due to be read. First in, first out, so that no pass waits forever behind others. */
export class PollQueue {
  readonly #poll: (pending: PendingReturn) => Promise<void>
  readonly #due = new Set<PendingReturn>()
  readonly #urgent = new Set<PendingReturn>()
  #running = 0
  #allowance = 0

  /** Creates the queue. `poll` reads one journal. It may skip a pass that has finished meanwhile, and it must not throw. */
  constructor(poll: (pending: PendingReturn) => Promise<void>) {
    this.#poll = poll
  }

  add(pending: PendingReturn): void {
    if (!pending.polling && !this.#urgent.has(pending)) this.#due.add(pending)
  }

  /** Moves a pass ahead of all that are merely due. */
  addUrgent(pending: PendingReturn): void {
    if (pending.polling) return
    this.#due.delete(pending)
    this.#urgent.add(pending)
  }

  /** Allows all reads that are due now to start as soon as there is capacity. */
  allowAllDue(): void {
    this.#allowance = Math.max(this.#allowance, this.#due.size)
  }

  /** Allows one more read, to repeat a failed one. */
  allowOneMore(): void {
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
    for (const pending of this.#urgent) {
      this.#urgent.delete(pending)
      return pending
    }
    if (this.#allowance === 0) return undefined
    for (const pending of this.#due) {
      this.#due.delete(pending)
      this.#allowance -= 1
      return pending
    }
    return undefined
  }

  async #run(pending: PendingReturn): Promise<void> {
    pending.polling = true
    this.#running += 1
    await this.#poll(pending)
    pending.polling = false
    this.#running -= 1
    this.begin()
  }
}
