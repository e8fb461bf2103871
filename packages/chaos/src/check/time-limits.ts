import type { CheckerOptions, Trouble } from './types.js'

/** Computes the latest time at which something due at a given time must have happened. */
export class TimeLimits {
  readonly #bound: number
  readonly #cascade: number
  readonly #recovery: number
  readonly #seal: number
  readonly #troubles: readonly Trouble[]
  readonly #audit: readonly Trouble[]

  constructor(options: CheckerOptions) {
    const { bound_ms = 1_000, cascade_ms = bound_ms, troubles = [], recovery_ms = 5_000, seal_ms = 30_000, audit_away = [] } = options
    this.#seal = seal_ms
    this.#bound = bound_ms
    this.#cascade = cascade_ms
    this.#recovery = recovery_ms
    this.#troubles = [...troubles].sort((a, b) => a.from - b.from)
    this.#audit = [...troubles, ...audit_away].sort((a, b) => a.from - b.from)
  }

  ofDeadline(time: number): number {
    return this.#later(time + this.#bound)
  }
  ofSealing(time: number): number {
    return this.#later(time, this.#audit) + this.#seal
  }
  ofCascade(time: number): number {
    return this.#later(time + this.#cascade)
  }

  #later(time: number, troubles = this.#troubles): number {
    let latest = time
    for (const { from, to } of troubles) if (from <= latest) latest = Math.max(latest, to + this.#recovery)
    return latest
  }
}
