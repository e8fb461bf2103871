import { BusReadError, type LoadedPart, loadParts, PartError } from '@passover/bus'
import type { Part } from '@passover/schemas'
import { isPastDeadline, type Run } from '../attempt/run.js'
import { type Deps, sleep } from '../runtime/dependencies.js'

const MIN_CONTEXT_LIMIT_BYTES = 64 * 1024 * 1024
const RETRY_DELAY_MS = 250
/** Milliseconds for which loading is retried: a cluster may have no leader for that long. */
const LEADERLESS_TIMEOUT_MS = 15_000

/**
 * Loads the context of a run. Requests without an answer are retried until the run must stop.
 *
 * @returns The parts, or `undefined` if the run must stop before all are loaded, or the connection was closed.
 * @throws PartError for parts that are lost.
 */
export async function loadContext({ bus, clock }: Pick<Deps, 'bus' | 'clock'>, run: Run): Promise<LoadedPart[] | undefined> {
  const leader_by = clock.monotonic() + LEADERLESS_TIMEOUT_MS
  const isTransient = (error: unknown): boolean => {
    if (error instanceof PartError) return error.unanswered && clock.monotonic() < leader_by
    return error instanceof BusReadError && error.reason !== 'closed'
  }
  const isOver = () => run.stop !== undefined || isPastDeadline({ bus, clock }, run)
  let closed = false
  const fetch = async (part: Part): Promise<Uint8Array> => {
    for (;;) {
      try {
        return await bus.parts.fetch(part)
      } catch (error) {
        closed ||= error instanceof BusReadError && error.reason === 'closed'
        if (!isTransient(error) || isOver()) throw error
      }
      await sleep(clock, RETRY_DELAY_MS, run.abort.signal)
    }
  }
  try {
    return await loadParts({ fetch }, run.parts, contextLimit(run))
  } catch (error) {
    if (closed || (isTransient(error) && isOver())) return undefined
    throw error
  }
}

/**
 * Returns the maximum size of the context in bytes, never below the size that admission accepted. A part whose size differs from the stated one is
 * not loaded.
 */
function contextLimit({ control }: Run): number {
  return Math.max(MIN_CONTEXT_LIMIT_BYTES, control.policy.max_context_size_bytes)
}
