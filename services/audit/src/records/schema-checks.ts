import type { CheckSchema } from '@passover/core'
import type { PassMemory } from '../pass/pass-memory.js'

/** Checks that may wait before the reader does. */
const MAX_WAITING = 256

/** Applies output schemas to what was returned before its record is written. */
export class SchemaChecks {
  pending = 0
  /** Outputs whose schema was not applied, because its agent's budget was spent. */
  unchecked = 0
  private waiters: (() => void)[] = []
  private stopped = false

  constructor(readonly check: CheckSchema | undefined) {}

  /** `done` is called once the memory knows the verdict; never after `stop`: the pass is then read again by the next process. */
  begin(memory: PassMemory, asked: { schema: unknown; output: unknown }, done: () => void): void {
    if (!this.check) return
    this.pending++
    void this.check(asked.schema, asked.output, memory.key.subagent).then((verdict) => {
      this.pending--
      if (this.pending <= MAX_WAITING / 2) this.wake()
      if (this.stopped) return
      if ('unchecked' in verdict) this.unchecked++
      memory.judge(verdict)
      done()
    })
  }

  /** A promise when the reader must wait. */
  backpressure(): Promise<void> | undefined {
    return this.pending > MAX_WAITING && !this.stopped ? new Promise((done) => this.waiters.push(done)) : undefined
  }

  stop(): void {
    this.stopped = true
    this.wake()
  }

  private wake(): void {
    for (const done of this.waiters.splice(0)) done()
  }
}
