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

/** A pass that is asked for: PassOverRequest without what the token (its originator) and the gateway (id, times) fill in. */
export const createPass = z.strictObject({
  subagent: agentName,
  reason: shape.reason,
  work_context: workContext
    .partial({ session_id: true, directory: true, files: true, messages: true })
    .extend({ objective: context.objective }),
  /** The same id with the same request gets the stored state or result; with another one it is E005. The header Idempotency-Key says it too. */
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

/** What came back, as far as the token's owner may see it now. */
const outcome = {
  output: z.record(z.string(), z.unknown()).optional(),
  error: passError.optional(),
  raw_output: z.unknown().optional(),
  /** Why there is an output that is not shown: unreadable, or not released to its originator. */
  withheld: z.string().optional(),
}

/** A pass that was taken. With an output or an error it has ended. */
export const createdPass = z.object({ id: passId, originator: agentName, subagent: agentName, status: z.enum(PASS_STATUSES), ...outcome })
export type CreatedPass = z.infer<typeof createdPass>

/** Which one is meant. */
export const partiesParameters = z.strictObject(parties)
export const showParameters = z.strictObject({ ...parties, history: flag.optional() })

export const shownPass = z.object({
  pass: passRow,
  status: z.string(),
  digest: z.string().optional(),
  deadline: z.number().optional(),
  decisions: z.array(answeredDecision),
  /** The projection (PassRecord). */
  record: z.record(z.string(), z.unknown()).optional(),
  /** What of it waits for a person. */
  due: inboxItem.optional(),
  /** For people: of the agents of its chain the first whose credentials were revoked. */
  revoked: revokedAgent.optional(),
  /** With `history=true`. */
  history: z.array(timelineEntry).optional(),
  below: z.array(passRow).optional(),
  ...outcome,
})
export type ShownPass = z.infer<typeof shownPass>

export const cancelPass = z.strictObject({ ...reasoned, ...parties })
/** Who acted: the name, and whether this installation can vouch for it. */
export const actedBy = { by: z.string().optional(), unverified: z.literal(true).optional() }

export const cancelledPass = z.object({ id: z.string(), cancelled: z.boolean(), status: z.string(), ...actedBy })
export type CancelledPass = z.infer<typeof cancelledPass>

export const decidePass = z.strictObject({
  ...reasoned,
  ...parties,
  /** Only if this is what waits. */
  item: z.enum(['dispatch', 'return', 'apply']).optional(),
  /** Numbers of the changes that are taken, of item `apply`; the others are rejected. */
  only: list(z.int().positive(), LIMITS.artifacts).optional(),
  /**
   * Of what was shown: if something else waits by now, nothing is decided (412). To approve changes it is required, and it is the digest
   * of the plan, which shows all of them; of other items it is `due.digest`.
   */
  digest: text(LIMITS.word).optional(),
  /** Also changes of binary content, which the plan cannot show. */
  binary: z.boolean().optional(),
  /** Also files with too many changes for a diff. */
  whole: z.boolean().optional(),
  /** Approve although an agent of the chain, its originator or its subagent, has no valid credentials any more (`due.revoked`). */
  despite_revocation: z.boolean().optional(),
})
export type DecidePass = z.infer<typeof decidePass>

export const decidedPass = z.object({
  id: z.string(),
  item: z.string(),
  decided: z.boolean(),
  ...actedBy,
  /** By a person who takes part in the pass, as the only person of a local server. */
  self: z.literal('local').optional(),
  verdict: z.string().optional(),
  digest: z.string().optional(),
  /** When somebody else decided. */
  at: z.number().optional(),
  status: z.string(),
  modifications: z.record(z.string(), z.enum(['taken', 'rejected'])).optional(),
})
export type DecidedPass = z.infer<typeof decidedPass>

export const planParameters = z.strictObject({
  ...parties,
  /** Numbers of the changes that would be taken, by commas; absent: all. */
  only: z
    .string()
    .regex(/^[1-9]\d{0,5}(,[1-9]\d{0,5}){0,9999}$/)
    .optional(),
  /** `true`: files with too many changes for a diff are shown as all old lines removed and all new lines added. */
  whole: flag.optional(),
})

export type PlanParameters = z.infer<typeof planParameters>

/** What may be applied of an output. The files are where its originator is; the changes are written there, by it or by `passover apply`. */
export const applyPlan = z.object({
  id: z.string(),
  status: z.string(),
  /** Whether it may be applied as it stands. */
  may_apply: z.boolean(),
  why_not: z.string().optional(),
  decision: answeredDecision.optional(),
  /** Names exactly what `files` shows: the stored return and the changes taken from it. An approval of changes gives it. */
  digest: z.string(),
  /** What the changes do to each file in all, with diffs and warnings; of those in the decision or in `only`, else of all. */
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
