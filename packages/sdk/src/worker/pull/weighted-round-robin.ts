import { PRIORITIES, type Priority } from '@passover/schemas'

/** Relative number of turns of each priority while all have work: high work overtakes, low work still progresses. */
export const PRIORITY_WEIGHTS: Readonly<Record<Priority, number>> = { high: 8, medium: 4, low: 1 }

/**
 * Smooth weighted round robin over the priorities that have work: of 13 turns high gets 8, medium 4 and low 1, spread evenly. A priority does not
 * accumulate turns while it has no work.
 */
export class WeightedRoundRobin {
  readonly #credit: Record<Priority, number> = { high: 0, medium: 0, low: 0 }

  /** Returns the priority whose turn it is among those that have work. */
  next(hasWork: (priority: Priority) => boolean): Priority | undefined {
    let best: Priority | undefined
    let total = 0
    for (const priority of PRIORITIES) {
      if (!hasWork(priority)) {
        this.#credit[priority] = 0
        continue
      }
      total += PRIORITY_WEIGHTS[priority]
      this.#credit[priority] += PRIORITY_WEIGHTS[priority]
      if (best === undefined || this.#credit[priority] > this.#credit[best]) best = priority
    }
    if (best !== undefined) this.#credit[best] -= total
    return best
  }

  /** Returns the number of turns out of `count` for each priority that has work. */
  share(count: number, hasWork: (priority: Priority) => boolean): Record<Priority, number> {
    const shares: Record<Priority, number> = { high: 0, medium: 0, low: 0 }
    for (let turn = 0; turn < count; turn++) {
      const priority = this.next(hasWork)
      if (priority === undefined) break
      shares[priority] += 1
    }
    return shares
  }
}
