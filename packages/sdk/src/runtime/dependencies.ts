import type { Bus } from '@passover/bus'
import type { Clock, Tracing } from '@passover/core'
import type { Random } from '@passover/schemas'
import type { OutputSchemas } from '@passover/validation'
import type { Faults } from './fault-points.js'

/** What the sdk is given: only `connect()` constructs these, so that a simulation brings its own. */
export interface Deps {
  /** Connected as the agent. */
  bus: Bus
  /** The server's time. */
  clock: Clock
  random: Random
  faults?: Faults
  /** Where spans go; absent: nowhere. Its agent ends it. */
  tracing?: Tracing
  /** How often a worker asks whether it is registered still, ms; absent: never. */
  registered_ms?: number
  /** Applies output schemas; absent: none is. Its agent ends it. */
  schemas?: OutputSchemas
  /** Bytes of one output, parts included, beyond which it is not loaded; absent: what `loadParts` allows. */
  output_bytes?: number
  /** Where the process says a line for people, workers' failures among them; absent: nowhere. */
  say?: (line: string) => void
  /** Where it runs, for people. */
  process?: { host: string; pid: number }
  /** Addresses that `bus` connects to, for people. */
  servers?: readonly string[]
}

/** A promise for the passing of time. Aborting ends it early, without an error. */
export function sleep(clock: Deps['clock'], ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve()
    const timer = clock.after(ms, () => {
      signal?.removeEventListener('abort', early)
      resolve()
    })
    function early(): void {
      timer[Symbol.dispose]()
      resolve()
    }
    signal?.addEventListener('abort', early, { once: true })
  })
}
