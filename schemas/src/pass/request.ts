import { z } from 'zod'
import { count, filled, list, open } from '../base/bounded-types.js'
import { agentName, PRIORITIES, passId } from '../base/identifiers.js'
import { LIMITS } from '../base/limits.js'
import { agentPairOverride, budget } from '../policy/policy.js'
import { workContext } from './context.js'
import { frequent, message } from './message.js'

export const priority = z.enum(PRIORITIES)

export const OUTPUT_TYPES = ['decision', 'artifacts', 'report', 'mixed'] as const
export const expectedOutputType = z.enum(OUTPUT_TYPES)
export type ExpectedOutputType = z.infer<typeof expectedOutputType>

/** The parent pass of a request, with the proof (docs/architecture/protocol.md#parents-and-chains). */
export const parentProof = open({
  originator: agentName,
  subagent: agentName,
  id: passId,
  /** From the parent's work step. */
  return_id: filled(LIMITS.short),
  /** Sequence of the parent's last step that counts. */
  proof: z.int().positive(),
})
export type ParentProof = z.infer<typeof parentProof>

const controlShape = {
  id: passId,
  originating_agent_id: agentName,
  subagent_id: agentName,

  reason: filled(LIMITS.line),
  priority: priority.optional(),
  timeout_ms: z.int().positive().max(LIMITS.timeout_ms).optional(),

  return_required: z.boolean(),
  auto_apply_on_success: z.boolean().optional(),

  constraints: list(filled(LIMITS.word), LIMITS.constraints).optional(),
  expected_output_type: expectedOutputType.optional(),

  /** Inline override of the policy. */
  override: agentPairOverride.optional(),
  parent: parentProof.optional(),
  /** The pass that this one retries, and the total number of attempts made for it. */
  retry_of: passId.optional(),
  attempts_made: count.optional(),
  budget: budget.optional(),
  user_id: filled(LIMITS.short).optional(),
  trace_id: filled(LIMITS.short).optional(),
}

/** The request without its context, as admission reads it. */
export const requestControl = frequent(open(controlShape))
export type RequestControl = z.infer<typeof requestControl>

/** A request for a pass. */
export const passOverRequest = message(open({ ...controlShape, work_context: workContext }))
export type PassOverRequest = z.infer<typeof passOverRequest>
