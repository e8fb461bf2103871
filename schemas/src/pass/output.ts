import { z } from 'zod'
import { capKeys, count, list, open, span, text } from '../base/bounded-types.js'
import { agentName, passId } from '../base/identifiers.js'
import { LIMITS } from '../base/limits.js'
import { workArtifact } from './artifacts.js'
import { message } from './message.js'
import { passOverMetadata } from './metadata.js'

export const WORK_STATUSES = ['completed', 'failed', 'aborted', 'partial'] as const
export const workStatus = z.enum(WORK_STATUSES)
export type WorkStatus = z.infer<typeof workStatus>

export const DECISIONS = ['approved', 'rejected', 'needs_modification', 'blocked'] as const
export const decision = z.enum(DECISIONS)
export type Decision = z.infer<typeof decision>

const summaryShape = {
  decision: decision.optional(),
  decision_reason: text(LIMITS.page).optional(),
  findings: list(text(LIMITS.page), LIMITS.findings),
  recommendations: list(text(LIMITS.page), LIMITS.recommendations).optional(),
  files_modified: count,
  files_reviewed: count,
  issues_found: count,
  time_elapsed_ms: span,
  /** Summary text for people. */
  generated_summary: text(LIMITS.page).optional(),
}

/** The summary of a WorkOutput. Nested `statistics` are accepted and flattened; files_reviewed, which they lack, is then 0. */
export const workSummary = z.preprocess(flatStatistics, open(summaryShape))
export type WorkSummary = z.infer<typeof workSummary>

/** Moves the fields of `statistics` up. An existing field takes precedence. */
function flatStatistics(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || !('statistics' in value)) return value
  const { statistics, ...rest } = value
  if (typeof statistics !== 'object' || statistics === null || Array.isArray(statistics)) return value
  return { files_reviewed: 0, ...statistics, ...rest }
}

/** Result that a subagent returns. */
export const workOutput = message(
  open({
    /** The pass's id. */
    work_id: passId,
    subagent_id: agentName,
    originating_agent_id: agentName,

    status: workStatus,
    completion_reason: text(LIMITS.page).optional(),

    artifacts: list(workArtifact, LIMITS.artifacts),
    summary: workSummary,

    return_to: agentName,
    auto_apply_allowed: z.boolean(),

    metadata: passOverMetadata,

    /** Plain text, for a subagent that returns nothing else. */
    output: text(LIMITS.text).optional(),
  }),
)
export type WorkOutput = z.infer<typeof workOutput>

/** Fields of the summary that a handler may set; the system counts the rest. */
export const handlerSummary = z.preprocess(flatStatistics, open(z.object(summaryShape).partial().shape))

const handlerFields = {
  status: workStatus.optional(),
  completion_reason: text(LIMITS.page).optional(),
  artifacts: list(workArtifact, LIMITS.artifacts).optional(),
  /** A plain text becomes the generated_summary. */
  summary: z.union([text(LIMITS.page), handlerSummary]).optional(),
  auto_apply_allowed: z.boolean().optional(),
  output: text(LIMITS.text).optional(),
}
const SOMETHING = Object.keys(handlerFields)

/** Result of a handler: text, or at least one of these fields. The system sets identity and metadata. */
export const handlerResult = z.union([
  text(LIMITS.text),
  capKeys(
    open(handlerFields).refine(
      (given: Record<string, unknown>) => SOMETHING.some((field) => given[field] !== undefined),
      `says nothing: give at least one of ${SOMETHING.join(', ')}`,
    ),
    LIMITS.keys,
  ),
])
export type HandlerResult = z.infer<typeof handlerResult>
