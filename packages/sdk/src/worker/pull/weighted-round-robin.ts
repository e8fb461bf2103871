import { SLOTS, type Slot } from '@passover/schemas'

/** Relative number of turns of each slot while all have work: high work overtakes, low work still progresses. */
export const SLOT_WEIGHTS: Readonly<Record<Slot, number>> = { high: 8, medium: 4, low: 1 }

/**
 * Smooth weighted round robin over the slots that have work: of 13 turns high gets 8, medium 4 and low 1, spread evenly. A slot does not accumulate
 * turns while it has no work.
 */
export class WeightedRoundRobin {
  readonly #credit: Record<Slot, number> = { high: 0, medium: 0, low: 0 }

  /** Returns the slot whose turn it is among those that have work. */
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

  /** Returns the number of turns out of `count` for each slot that has work. */
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
