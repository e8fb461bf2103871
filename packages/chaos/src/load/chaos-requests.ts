import type { SeededRandom } from '../seeded-random.js'
import { BUILDER, type LoadRequest, planRequest } from './load-plan.js'

/** Subagent whose passes are held for a person before they are dispatched. */
export const GATED_AGENT = 'gate'
export const APPROVAL_EXPIRES_MS = 8_000

/**
 * Policy of a run. It sets no effective loop breaker and no effective limit of open passes, since the load has only few sessions and pairs. The
 * passes of one subagent are held.
 */
export const CHAOS_POLICY = {
  defaults: { max_passes_per_session: 1_000_000_000, max_open: 1_000_000_000 },
  subagents: { [GATED_AGENT]: { hold_before_dispatch: true, approval_expires_ms: APPROVAL_EXPIRES_MS } },
}

/** One request of an originator in a run. */
export interface ChaosRequest extends LoadRequest {
  to: string
  /** True to use the SDK's retries, which make a new request after recoverable errors. */
  retries: boolean
}

/** Plans a request: those of the load tests, and also held ones, retries, and children that would form a loop (E003). */
export function planChaosRequest(seed: SeededRandom): ChaosRequest {
  const made: ChaosRequest = { ...planRequest(seed), to: BUILDER, retries: false }
  const kind = seed.next()
  if (kind < 0.1) return { ...made, to: GATED_AGENT, plan: { ms: made.plan.ms } }
  if (kind < 0.15) return { ...made, times: 1, retries: true }
  if (kind < 0.2) {
    const back = { to: BUILDER, waits: true, plan: { ms: 0 } }
    return { ...made, plan: { ms: 10, child: seed.chance(50) ? back : { to: 'helper', waits: true, plan: { ms: 10, child: back } } } }
  }
  return made
}

/** A line of an originator's log, one JSON document per line. Times are in milliseconds by this machine's clock. */
export type OriginatorLogLine =
  | { t: 'asked'; id: string; to: string; at: number; timeout_ms: number }
  /** The stream has stored its request. */
  | { t: 'stored'; id: string; at: number }
  /** The result that the originator received: `ok` or an error code, and the attempt that produced it if the worker reported one. */
  | { t: 'told'; id: string; at: number; outcome: string; attempt?: number }
  | { t: 'cancelled'; id: string; at: number }
