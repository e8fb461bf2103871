import { acknowledgedAnswer } from '@passover/schemas'
import type { Deps } from '../runtime/dependencies.js'

/** Milliseconds for which lookups are collected into one query, up to `MAX_BATCH`. */
const BATCH_DELAY_MS = 20
const MAX_BATCH = 1_000
const ANSWER_TIMEOUT_MS = 5_000

/**
 * Asks the audit service which returns this agent acknowledged. Queries are batched, because nearly all returns of a long backlog were acknowledged.
 */
export class AckLookup {
  readonly #deps: Deps
  #next: Promise<ReadonlySet<number> | undefined> | undefined
  #sequences: number[] = []

  constructor(deps: Deps) {
    this.#deps = deps
  }

  /** Returns true if the return was acknowledged, or `undefined` if the audit service does not answer. */
  async has(returned: number): Promise<boolean | undefined> {
    if (!this.#next || this.#sequences.length >= MAX_BATCH) this.#begin()
    this.#sequences.push(returned)
    const known = await this.#next
    return known?.has(returned)
  }

  #begin(): void {
    const sequences: number[] = []
    this.#sequences = sequences
    const next = new Promise<void>((resolve) => this.#deps.clock.after(BATCH_DELAY_MS, resolve)).then(() => {
      if (this.#next === next) this.#next = undefined
      return this.#ask(sequences)
    })
    this.#next = next
  }

  async #ask(returns: number[]): Promise<ReadonlySet<number> | undefined> {
    const answer = acknowledgedAnswer.safeParse(
      await this.#deps.bus.ask({ op: 'acknowledged', returns }, { timeout_ms: ANSWER_TIMEOUT_MS }).catch(() => undefined),
    )
    return answer.success && answer.data.ok ? new Set(answer.data.returns) : undefined
  }
}
