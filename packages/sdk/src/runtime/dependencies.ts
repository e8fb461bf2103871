import type { Bus } from '@passover/bus'
import type { Clock, Tracing } from '@passover/core'
import type { Random } from '@passover/schemas'
import type { OutputSchemas } from '@passover/validation'
import type { Faults } from './fault-points.js'

/** Dependencies of the SDK. Only `connect()` creates them, so that a simulation can provide its own. */
export interface Deps {
  /** Connection of the agent. */
  bus: Bus
  /** Clock that shows the server's time. */
  clock: Clock
  random: Random
  faults?: Faults
  /** Recorder of spans. If absent, none are recorded. Disposed with the agent. */
  tracing?: Tracing
  /** Milliseconds between checks that a worker's agent is still registered. If absent, it is not checked. */
  registered_ms?: number
  /** Validator for output schemas. If absent, outputs are not validated. Disposed with the agent. */
  schemas?: OutputSchemas
  /** Maximum size in bytes of an output that is loaded, including its parts. If absent, the limit of `loadParts` applies. */
  output_bytes?: number
  /** Prints a line for people, such as a failure of a worker. If absent, nothing is printed. */
  say?: (line: string) => void
  /** Host and process id, for people. */
  process?: { host: string; pid: number }
  /** Server addresses of `bus`, for people. */
  servers?: readonly string[]
}

/** Resolves after `ms` milliseconds. Aborting the signal resolves it early, without an error. */
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
