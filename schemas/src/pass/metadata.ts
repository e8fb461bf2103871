import { z } from 'zod'
import { count, filled, list, open, span, text, time } from '../base/bounded-types.js'
import { agentName, passId } from '../base/identifiers.js'
import { LIMITS } from '../base/limits.js'

/** One entry of a pass's origination chain. */
export const originationEntry = open({ agent_id: agentName, timestamp: time, action: z.enum(['initiated', 'delegated', 'returned']) })
export type OriginationEntry = z.infer<typeof originationEntry>

/** PassOverMetadata. All times are in ms. */
export const passOverMetadata = open({
  created_at: time,
  started_at: time.optional(),
  completed_at: time.optional(),
  returned_at: time.optional(),

  pass_over_id: passId,
  trace_id: text(LIMITS.short).optional(),
  /** Number of passes in the chain, including this one. */
  chain_depth: z.int().min(0).max(LIMITS.chain),
  origination_chain: list(originationEntry, LIMITS.chain_entries),

  policy_name: text(LIMITS.short).optional(),
  policy_override: z.boolean().optional(),
  /** Extension: version of the policy document that the pass ran under. */
  policy_version: count.optional(),
  /** Extension: the attempt that returned, and the pass that this one retries. */
  attempt: count.optional(),
  retry_of: passId.optional(),

  wall_time_ms: span,
  subagent_compute_ms: span,

  applied: z.boolean(),
  applied_at: time.optional(),
  applied_by: filled(LIMITS.short).optional(),
})
export type PassOverMetadata = z.infer<typeof passOverMetadata>
