import { z } from 'zod'
import { filled, list, open, text, time } from '../base/bounded-types.js'
import { agentName } from '../base/identifiers.js'
import { LIMITS } from '../base/limits.js'
import { subagentPreference } from './policy.js'

export const originates = z.enum(['always', 'within_a_pass', 'never'])
export type Originates = z.infer<typeof originates>

/** Limits that an agent may put on itself: each can only narrow what it gets. */
export const ownLimits = subagentPreference
  .pick({ max_passes_per_minute: true, max_active: true, max_compute_time_ms: true, max_memory_mb: true })
  .strict()
export type OwnLimits = z.infer<typeof ownLimits>

/** A bucket of fewer bytes could not hold the parts of one message. */
export const PARTS_BYTES_LEAST = 1_048_576

/** An agent of the registry: what it may do, and its own defaults. */
export const agentRecord = open({
  name: agentName,
  roles: open({
    /** Whether it may pass over without being in a pass itself. */
    originates,
    /** Whether passes may go to it. */
    subagent: z.boolean(),
  }),
  description: text(LIMITS.line).optional(),
  skills: list(filled(LIMITS.word), LIMITS.skills).optional(),
  /** They stand below the policy's entry for this subagent. */
  defaults: subagentPreference.optional(),
  /** Returns wait for it while it is away, from that sequence on: it takes them when it comes back (E022 where it does not in time). */
  durable_returns: open({ from: z.int().positive() }).optional(),
  /** Byte limit of the bucket that holds its large parts; left out: the installation's default. */
  parts_bytes: z.int().min(PARTS_BYTES_LEAST).optional(),
  /** A person revoked its credentials then, server ms. Requests of it are refused, and a person must say so to approve what it takes part in. */
  revoked_at: time.optional(),
  /** A person, or the agent itself under open registration. */
  registered_by: filled(LIMITS.short),
  updated_at: time,
})
export type AgentRecord = z.infer<typeof agentRecord>
