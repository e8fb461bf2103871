import type { Awaited } from '../delivery/pending-return.js'

/** Reads under way at a time. */
const AT_ONCE = 64
/** Begun in one sweep where nothing is urgent: a burst of slow passes must not keep the server busy with reads. */
const A_SWEEP = 64

/** What is to be read, in the order in which it became due, so that none waits for ever behind others. */
export class LookQueue {
  readonly #look: (awaited: Awaited) => Promise<void>
  readonly #due = new Set<Awaited>()
  readonly #urgent = new Set<Awaited>()
  #running = 0
  #allowance = 0

  /** `look` may do nothing for what is over meanwhile; it must not throw. */
  constructor(look: (awaited: Awaited) => Promise<void>) {
    this.#look = look
  }

  add(awaited: Awaited): void {
    if (!awaited.busy && !this.#urgent.has(awaited)) this.#due.add(awaited)
  }

  /** Before all that is merely due. */
  hurry(awaited: Awaited): void {
    if (awaited.busy) return
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
    this.#allowance = Math.max(this.#allowance, A_SWEEP)
    this.begin()
  }

  begin(): void {
    while (this.#running < AT_ONCE) {
      const next = this.#next()
      if (!next) return
      if (!next.over) void this.#run(next)
    }
  }

  #next(): Awaited | undefined {
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

  async #run(awaited: Awaited): Promise<void> {
    awaited.busy = true
    this.#running += 1
    await this.#look(awaited)
    awaited.busy = false
    this.#running -= 1
    this.begin()
  }
}
