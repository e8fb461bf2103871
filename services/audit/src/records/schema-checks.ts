import type { CheckSchema } from '@passover/core'
import type { PassMemory } from '../pass/pass-memory.js'

/** Number of pending checks above which the reader waits. */
const MAX_WAITING = 256

/** Applies output schemas to returned outputs before their records are written. */
export class SchemaChecks {
  pending = 0
  /** Number of outputs whose schema was not applied because the budget of their agent was spent. */
  unchecked = 0
  #waiters: (() => void)[] = []
  #stopped = false

  constructor(readonly check: CheckSchema | undefined) {}

  /** Starts a check, and calls `done` once `memory` has the verdict. Not called after `stop`: the next process reads the pass again. */
  begin(memory: PassMemory, asked: { schema: unknown; output: unknown }, done: () => void): void {
    if (!this.check) return
    this.pending++
    void this.check(asked.schema, asked.output, memory.key.subagent).then((verdict) => {
      this.pending--
      if (this.pending <= MAX_WAITING / 2) this.#wake()
      if (this.#stopped) return
      if ('unchecked' in verdict) this.unchecked++
      memory.judge(verdict)
      done()
    })
  }

  /** Returns a promise if the reader must wait. */
  backpressure(): Promise<void> | undefined {
    return this.pending > MAX_WAITING && !this.#stopped ? new Promise((done) => this.#waiters.push(done)) : undefined
  }

  stop(): void {
    this.#stopped = true
    this.#wake()
  }

  #wake(): void {
    for (const done of this.#waiters.splice(0)) done()
  }
}
