import { z } from 'zod'
import { agentName, storedKey } from '../base/identifiers.js'

const key = storedKey

/** Fields of both kinds of notification. Never contents of files. Times are server ms. */
const common = {
  v: z.literal(1),
  /** Stable across deliveries: pass, step and kind. */
  id: z.string().max(300),
  pass: key,
  /** The root pass of its chain. */
  root: key,
  session_id: z.string().optional(),
  reason: z.string(),
  /** Sequence of the step that it is about. */
  sequence: z.int().positive(),
  time: z.number(),
}

const findings = z.object({ error: z.int().min(0), warning: z.int().min(0), info: z.int().min(0) })

/** A pass returned, and its policy (`notify_on_return`) wants a notification. */
export const returnNotice = z.object({
  ...common,
  event: z.literal('return'),
  /** Status of the pass. */
  status: z.string(),
  /** Status of its output, or how the pass ended without one. */
  outcome: z.string(),
  code: z.string().optional(),
  summary: z.string(),
  decision: z.string().optional(),
  /** True if there is any finding, or if the work was not completed. */
  issues: z.boolean(),
  findings,
  /** Number of proposed file modifications. */
  changes: z.int().min(0),
  applied: z.boolean(),
  /** The item that a person has to decide. */
  awaits: z.enum(['dispatch', 'return', 'apply']).optional(),
})
export type ReturnNotice = z.infer<typeof returnNotice>

/** A pass waits for a person: its start, the release of its return, or the application of its changes. */
export const approvalNotice = z.object({
  ...common,
  event: z.literal('approval'),
  item: z.enum(['dispatch', 'return', 'apply']),
  /** Digest of what is to be decided. */
  digest: z.string(),
  expires_at: z.number(),
  why: z.string().optional(),
  approvers: z.array(agentName).optional(),
})
export type ApprovalNotice = z.infer<typeof approvalNotice>

/** A notification: a line of `passover watch`, and the body of a webhook. */
export const notice = z.discriminatedUnion('event', [returnNotice, approvalNotice])
export type Notice = z.infer<typeof notice>
