import { z } from 'zod'
import { agentName, passKey, storedId } from '../base/identifiers.js'

const key = passKey.extend({ id: storedId })

/** What both kinds of notification say. Never what is in a file. Times in server ms. */
const common = {
  v: z.literal(1),
  /** The same each time that it is delivered: pass, step and kind. */
  id: z.string().max(300),
  pass: key,
  /** The pass at the top of its chain. */
  root: key,
  session_id: z.string().optional(),
  reason: z.string(),
  /** Of the step that it is about. */
  sequence: z.int().positive(),
  time: z.number(),
}

const findings = z.object({ error: z.int().min(0), warning: z.int().min(0), info: z.int().min(0) })

/** A pass returned, and its policy (`notify_on_return`) wants that told. */
export const returnNotice = z.object({
  ...common,
  event: z.literal('return'),
  /** Of the pass. */
  status: z.string(),
  /** Of its output, or how it ended without one. */
  outcome: z.string(),
  code: z.string().optional(),
  summary: z.string(),
  decision: z.string().optional(),
  /** Any finding, or work that was not completed. */
  issues: z.boolean(),
  findings,
  /** Proposed file modifications. */
  changes: z.int().min(0),
  applied: z.boolean(),
  /** What a person has to decide about it. */
  awaits: z.enum(['dispatch', 'return', 'apply']).optional(),
})
export type ReturnNotice = z.infer<typeof returnNotice>

/** A pass waits for a person: its start, or the release of its return. */
export const approvalNotice = z.object({
  ...common,
  event: z.literal('approval'),
  item: z.enum(['dispatch', 'return', 'apply']),
  /** Of what is to be decided about. */
  digest: z.string(),
  expires_at: z.number(),
  why: z.string().optional(),
  approvers: z.array(agentName).optional(),
})
export type ApprovalNotice = z.infer<typeof approvalNotice>

/** What a notification says: a line of `passover watch`, and the body of a webhook. */
export const notice = z.discriminatedUnion('event', [returnNotice, approvalNotice])
export type Notice = z.infer<typeof notice>
