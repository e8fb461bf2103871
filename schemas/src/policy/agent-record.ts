import { z } from 'zod'
import { filled, list, open, text, time } from '../base/bounded-types.js'
import { agentName } from '../base/identifiers.js'
import { LIMITS } from '../base/limits.js'
import { subagentPreference } from './policy.js'

export const originates = z.enum(['always', 'within_a_pass', 'never'])
export type Originates = z.infer<typeof originates>

/** Limits that an agent may set for itself. They cannot raise the limits of the policy. */
export const ownLimits = subagentPreference
  .pick({ max_passes_per_minute: true, max_active: true, max_compute_time_ms: true, max_memory_mb: true })
  .strict()
export type OwnLimits = z.infer<typeof ownLimits>

/** Minimum size of a bucket, bytes. A smaller one could not hold the parts of one message. */
export const PARTS_BYTES_LEAST = 1_048_576

/** An agent in the registry: its roles and its own defaults. */
export const agentRecord = open({
  name: agentName,
  roles: open({
    /** Permission to pass work over: always, only within a pass, or never. */
    originates,
    /** True if it may receive passes. */
    subagent: z.boolean(),
  }),
  description: text(LIMITS.line).optional(),
  skills: list(filled(LIMITS.word), LIMITS.skills).optional(),
  /** Defaults that rank below the policy's entry for this subagent. */
  defaults: subagentPreference.optional(),
  /**
   * Set if returns are kept for the agent while it is not connected: the first sequence that is kept. It receives them when it connects again, or E022 is
   * recorded.
   */
  durable_returns: open({ from: z.int().positive() }).optional(),
  /** Byte limit of the bucket for its large parts. Absent means the installation's default. */
  parts_bytes: z.int().min(PARTS_BYTES_LEAST).optional(),
  /**
   * Time (server ms) at which a person revoked its credentials. Its requests are refused, and an approval of a pass with this agent in the chain needs
   * `despite_revocation`.
   */
  revoked_at: time.optional(),
  /** The person who registered it, or the agent itself under open registration. */
  registered_by: filled(LIMITS.short),
  updated_at: time,
})
export type AgentRecord = z.infer<typeof agentRecord>
