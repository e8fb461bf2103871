import type { SeededRandom } from '../seeded-random.js'
import { BUILDER, type LoadRequest, planRequest } from './load-plan.js'

/** Its passes wait for a person before they are dispatched. */
export const GATED_AGENT = 'gate'
export const APPROVAL_EXPIRES_MS = 8_000

/** The policy of a run: no loop breaker and no bound of open passes, since all are of few sessions and pairs; and a subagent whose passes are held. */
export const CHAOS_POLICY = {
  defaults: { max_passes_per_session: 1_000_000_000, max_open: 1_000_000_000 },
  subagents: { [GATED_AGENT]: { hold_before_dispatch: true, approval_expires_ms: APPROVAL_EXPIRES_MS } },
}

/** One thing that an originator does in a run. */
export interface ChaosRequest extends LoadRequest {
  to: string
  /** By the SDK's own retrying, which asks anew after what is recoverable. */
  retries: boolean
}

/** The errands of the load tests, and held ones, retries, and children that would close a loop (E003). */
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

/** What an originator writes down, a JSON document a line. Times in ms of this machine. */
export type OriginatorLogLine =
  | { t: 'asked'; id: string; to: string; at: number; timeout_ms: number }
  /** The stream has taken its request. */
  | { t: 'stored'; id: string; at: number }
  /** What it was told: `ok`, or an error's code; and by which attempt, where a worker said so. */
  | { t: 'told'; id: string; at: number; outcome: string; attempt?: number }
  | { t: 'cancelled'; id: string; at: number }
