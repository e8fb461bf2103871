import { SLOTS, type Slot } from '@passover/schemas'

/** How often a slot comes up while all have work: high overtakes, low still moves. */
export const SLOT_WEIGHTS: Readonly<Record<Slot, number>> = { high: 8, medium: 4, low: 1 }

/**
 * Smooth weighted round robin over the slots that have work: in 13 turns high gets 8, medium 4 and low 1, spread evenly.
 * A slot without work loses no turns to save and gains none.
 */
export class WeightedRoundRobin {
  readonly #credit: Record<Slot, number> = { high: 0, medium: 0, low: 0 }

  /** Whose turn it is among those that have work. */
  next(hasWork: (slot: Slot) => boolean): Slot | undefined {
    let best: Slot | undefined
    let total = 0
    for (const slot of SLOTS) {
      if (!hasWork(slot)) {
        this.#credit[slot] = 0
        continue
      }
      total += SLOT_WEIGHTS[slot]
      this.#credit[slot] += SLOT_WEIGHTS[slot]
      if (best === undefined || this.#credit[slot] > this.#credit[best]) best = slot
    }
    if (best !== undefined) this.#credit[best] -= total
    return best
  }

  /** How many of `count` turns each of the slots with work gets. */
  share(count: number, hasWork: (slot: Slot) => boolean): Record<Slot, number> {
    const shares: Record<Slot, number> = { high: 0, medium: 0, low: 0 }
    for (let turn = 0; turn < count; turn++) {
      const slot = this.next(hasWork)
      if (slot === undefined) break
      shares[slot] += 1
    }
    return shares
  }
}
