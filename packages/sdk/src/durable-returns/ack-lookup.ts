import { acknowledgedAnswer } from '@passover/schemas'
import type { Deps } from '../runtime/dependencies.js'

/** Questions are gathered for so long, up to as many as one message asks. */
const BATCH_DELAY_MS = 20
const MAX_BATCH = 1_000
const ANSWER_TIMEOUT_MS = 5_000

/** Asks the audit which returns this agent acknowledged, many in one question: of a long backlog nearly all were. */
export class AckLookup {
  readonly #deps: Deps
  #next: Promise<ReadonlySet<number> | undefined> | undefined
  #sequences: number[] = []

  constructor(deps: Deps) {
    this.#deps = deps
  }

  /** Undefined: nobody answered. */
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
