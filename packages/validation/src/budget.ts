/** Limits on checking time in ms per window: per owner, and in total. */
export interface BudgetLimits {
  owner_ms: number
  total_ms: number
  window_ms: number
}

/**
 * Milliseconds of each check that are not charged. An ordinary check takes about 0.2 ms: without this, an agent whose outputs are all quick to check
 * would exhaust its budget at some 400 outputs per second.
 */
const FREE_MS = 2

/**
 * Tracks the checking time in the current window, by owner. An agent's schema may take any time per output; the budget limits how long one agent's
 * outputs can delay those of others.
 */
export class CheckBudget {
  readonly #limits: BudgetLimits
  readonly #now: () => number
  readonly #spent = new Map<string, number>()
  #total = 0
  #began: number

  /** Creates a budget. `now` returns monotonic ms. */
  constructor(limits: BudgetLimits, now: () => number) {
    this.#limits = limits
    this.#now = now
    this.#began = now()
  }

  /** Returns the reason why a check of this owner must be skipped now, or `undefined` if there is time left. */
  refusal(owner: string): string | undefined {
    this.#roll()
    const { owner_ms, total_ms, window_ms } = this.#limits
    const within = `within ${window_ms / 1_000} s`
    if ((this.#spent.get(owner) ?? 0) >= owner_ms)
      return `not checked: the output_schema of ${owner} used its ${owner_ms / 1_000} s of checking time ${within}`
    if (this.#total >= total_ms)
      return `not checked: all output schemas together used their ${total_ms / 1_000} s of checking time ${within}`
    return undefined
  }

  /** Charges one check of `ms`. */
  spend(owner: string, ms: number): void {
    const charged = ms - FREE_MS
    if (charged <= 0) return
    this.#roll()
    this.#spent.set(owner, (this.#spent.get(owner) ?? 0) + charged)
    this.#total += charged
  }

  #roll(): void {
    const now = this.#now()
    if (now - this.#began < this.#limits.window_ms) return
    this.#began = now
    this.#spent.clear()
    this.#total = 0
  }
}
