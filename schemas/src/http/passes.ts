import { z } from 'zod'
import { inboxItem, revokedAgent, shownFile } from '../audit/inbox.js'
import { answeredDecision, passRow, timelineEntry } from '../audit/query-responses.js'
import { list, text } from '../base/bounded-types.js'
import { passError } from '../base/errors.js'
import { agentName, passId } from '../base/identifiers.js'
import { LIMITS } from '../base/limits.js'
import { fileModificationArtifact } from '../pass/artifacts.js'
import { workContext } from '../pass/context.js'
import { requestControl } from '../pass/request.js'
import { PASS_STATUSES } from '../pass/return-context.js'
import { flag, parties, reasoned } from './parameters.js'

const { shape } = requestControl
const context = workContext.shape

/** Request for a pass: PassOverRequest without what the token (its originator) and the gateway (id, times) fill in. */
export const createPass = z.strictObject({
  subagent: agentName,
  reason: shape.reason,
  work_context: workContext
    .partial({ session_id: true, directory: true, files: true, messages: true })
    .extend({ objective: context.objective }),
  /**
   * Idempotency key. The same id with the same request returns the stored state or result; with another request it is E005. Same as the header
   * Idempotency-Key.
   */
  id: passId.optional(),
  return_required: z.boolean().optional(),
  priority: shape.priority,
  timeout_ms: shape.timeout_ms,
  override: shape.override,
  constraints: shape.constraints,
  expected_output_type: shape.expected_output_type,
  auto_apply_on_success: shape.auto_apply_on_success,
  budget: shape.budget,
  parent: shape.parent,
  retry_of: shape.retry_of,
  attempts_made: shape.attempts_made,
  user_id: shape.user_id,
  trace_id: shape.trace_id,
})
export type CreatePass = z.input<typeof createPass>

/** The result, as far as the token's owner may see it now. */
const outcome = {
  output: z.record(z.string(), z.unknown()).optional(),
  error: passError.optional(),
  raw_output: z.unknown().optional(),
  /** Reason why an existing output is not shown: unreadable, or not released to its originator. */
  withheld: z.string().optional(),
}

/** A pass that was accepted. If there is an output or an error, it has ended. */
export const createdPass = z.object({ id: passId, originator: agentName, subagent: agentName, status: z.enum(PASS_STATUSES), ...outcome })
export type CreatedPass = z.infer<typeof createdPass>

/** Selects one pass. */
export const partiesParameters = z.strictObject(parties)
export const showParameters = z.strictObject({ ...parties, history: flag.optional() })

export const shownPass = z.object({
  pass: passRow,
  status: z.string(),
  digest: z.string().optional(),
  deadline: z.number().optional(),
  decisions: z.array(answeredDecision),
  /** The record (PassRecord). */
  record: z.record(z.string(), z.unknown()).optional(),
  /** Its item that waits for a person. */
  due: inboxItem.optional(),
  /** For people: the first agent of its chain whose credentials were revoked. */
  revoked: revokedAgent.optional(),
  /** With `history=true`: the stored messages, and its children in `below`. */
  history: z.array(timelineEntry).optional(),
  below: z.array(passRow).optional(),
  ...outcome,
})
export type ShownPass = z.infer<typeof shownPass>

export const cancelPass = z.strictObject({ ...reasoned, ...parties })
/** The name of the acting person, and a mark if this installation does not check names. */
export const actedBy = { by: z.string().optional(), unverified: z.literal(true).optional() }

export const cancelledPass = z.object({ id: z.string(), cancelled: z.boolean(), status: z.string(), ...actedBy })
export type CancelledPass = z.infer<typeof cancelledPass>

export const decidePass = z.strictObject({
  ...reasoned,
  ...parties,
  /** Decides only if this is the item that waits. */
  item: z.enum(['dispatch', 'return', 'apply']).optional(),
  /** For item `apply`: numbers of the changes that are taken; the others are rejected. */
  only: list(z.int().positive(), LIMITS.artifacts).optional(),
  /**
   * Digest of what was shown. If another item waits by now, nothing is decided (412). Required to approve changes, where it is the digest of the
   * plan, which shows all of them; for other items it is `due.digest`.
   */
  digest: text(LIMITS.word).optional(),
  /** True to include changes of binary content, which the plan cannot show. */
  binary: z.boolean().optional(),
  /** True to include files with too many changes for a diff. */
  whole: z.boolean().optional(),
  /** True to approve although an agent of the chain, its originator or its subagent, no longer has valid credentials (`due.revoked`). */
  despite_revocation: z.boolean().optional(),
})
export type DecidePass = z.infer<typeof decidePass>

export const decidedPass = z.object({
  id: z.string(),
  item: z.string(),
  decided: z.boolean(),
  ...actedBy,
  /** Set if the person takes part in the pass, as the only person of a local server. */
  self: z.literal('local').optional(),
  verdict: z.string().optional(),
  digest: z.string().optional(),
  /** Time of the decision, if somebody else decided. */
  at: z.number().optional(),
  status: z.string(),
  modifications: z.record(z.string(), z.enum(['taken', 'rejected'])).optional(),
})
export type DecidedPass = z.infer<typeof decidedPass>

export const planParameters = z.strictObject({
  ...parties,
  /** Numbers of the changes that would be taken, separated by commas. Absent means all. */
  only: z
    .string()
    .regex(/^[1-9]\d{0,5}(,[1-9]\d{0,5}){0,9999}$/)
    .optional(),
  /** `true` shows files with too many changes for a diff as all old lines removed and all new lines added. */
  whole: flag.optional(),
})

export type PlanParameters = z.infer<typeof planParameters>

/** Plan for applying an output. The files are on the originator's machine; the originator or `passover apply` writes the changes there. */
export const applyPlan = z.object({
  id: z.string(),
  status: z.string(),
  /** True if it may be applied in its current state. */
  may_apply: z.boolean(),
  why_not: z.string().optional(),
  decision: answeredDecision.optional(),
  /** Digest of exactly what `files` shows: the stored return and the changes taken from it. An approval of changes must contain it. */
  digest: z.string(),
  /** Combined effect of the changes on each file, with diffs and warnings. Covers the changes in the decision or in `only`, or else all. */
  files: z.array(shownFile),
  changes: z.array(
    z.object({
      number: z.int().positive(),
      digest: z.string(),
      verdict: z.enum(['taken', 'rejected', 'undecided']),
      modification: fileModificationArtifact,
    }),
  ),
})
export type ApplyPlan = z.infer<typeof applyPlan>
