import { z } from 'zod'
import { filled, list, open, text, time } from '../base/bounded-types.js'
import { agentName, passId } from '../base/identifiers.js'
import { LIMITS } from '../base/limits.js'
import { workOutput } from './output.js'

/** Status of a pass (docs/architecture/protocol.md#status). */
export const PASS_STATUSES = [
  'requested',
  'held',
  'waiting_for_return',
  'returned',
  'awaiting_release',
  'expired',
  'processed',
  'refused',
  'timed_out',
  'cancelled',
] as const
export const passStatus = z.enum(PASS_STATUSES)
export type PassStatus = z.infer<typeof passStatus>

/** ReturnToContext: a projection, computed from the journal on demand. */
export const returnToContext = open({
  session_id: filled(LIMITS.short),
  return_id: filled(LIMITS.short),

  originating_agent_id: agentName,
  subagent_id: agentName,
  pass_over_id: passId,

  auto_return_enabled: z.boolean(),
  auto_apply_enabled: z.boolean(),
  return_deadline: time.optional(),

  chain_depth: z.int().min(0).max(LIMITS.chain),
  max_chain_depth: z.int().positive().max(LIMITS.chain),
  /** Root first. */
  ancestors: list(agentName, LIMITS.chain),

  status: passStatus,
  created_at: time,
  returned_at: time.optional(),

  pending_work_output: workOutput.optional(),
  processing_errors: list(text(LIMITS.page), LIMITS.errors).optional(),
})
export type ReturnToContext = z.infer<typeof returnToContext>
