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
  /** A text for people. */
  generated_summary: text(LIMITS.page).optional(),
}

/**
 * The summary of a WorkOutput. Nested `statistics` are read and flattened; files_reviewed, which they lack, is then 0.
 */
export const workSummary = z.preprocess(flatStatistics, open(summaryShape))
export type WorkSummary = z.infer<typeof workSummary>

/** Moves `statistics` up; a flat field that is there wins. */
function flatStatistics(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || !('statistics' in value)) return value
  const { statistics, ...rest } = value
  if (typeof statistics !== 'object' || statistics === null || Array.isArray(statistics)) return value
  return { files_reviewed: 0, ...statistics, ...rest }
}

/** What a subagent returns. */
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

    /** Plain text of a subagent that has nothing more to say. */
    output: text(LIMITS.text).optional(),
  }),
)
export type WorkOutput = z.infer<typeof workOutput>

/** What a handler knows of its summary; the system counts the rest. */
export const handlerSummary = z.preprocess(flatStatistics, open(z.object(summaryShape).partial().shape))

const handlerFields = {
  status: workStatus.optional(),
  completion_reason: text(LIMITS.page).optional(),
  artifacts: list(workArtifact, LIMITS.artifacts).optional(),
  /** Just text is its generated_summary. */
  summary: z.union([text(LIMITS.page), handlerSummary]).optional(),
  auto_apply_allowed: z.boolean().optional(),
  output: text(LIMITS.text).optional(),
}
const SOMETHING = Object.keys(handlerFields)

/** What a handler gives: text, or any of these fields but at least one. Identity and metadata are the system's. */
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
