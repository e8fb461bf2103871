import { z } from 'zod'
import { deadLetter } from '../audit/dead-letters.js'
import { inboxItem, inboxLeftOut } from '../audit/inbox.js'
import { agentRow } from '../audit/query-responses.js'
import { text } from '../base/bounded-types.js'
import { passError } from '../base/errors.js'
import { agentName } from '../base/identifiers.js'
import { LIMITS } from '../base/limits.js'
import { passOverPreferences } from '../policy/policy.js'
import { flag, parties, reasoned, wholeNumber } from './parameters.js'

export const agentsPage = z.object({
  agents: z.array(agentRow.extend({ up: z.int().optional(), busy: z.int().optional(), places: z.int().optional() })),
})
export type AgentsPage = z.infer<typeof agentsPage>

export const inboxParameters = z.strictObject({
  /** Only items requested on behalf of this agent. */
  from: agentName.optional(),
  /** Only items that the token's owner may decide. */
  mine: flag.optional(),
  limit: wholeNumber(1, 200).optional(),
  cursor: text(10_000).optional(),
})
export const inboxPage = z.object({
  items: z.array(inboxItem),
  cursor: z.string().optional(),
  /** Set if the inbox was full: items of these agents may wait without being listed. */
  left_out: z.array(inboxLeftOut).optional(),
})
export type InboxPage = z.infer<typeof inboxPage>

/** The policy in force. Version 0 means the system's defaults. The header ETag contains the version. */
export const policyInForce = z.object({
  version: z.int().min(0),
  document: passOverPreferences,
  by: z.string().optional(),
  time: z.number().optional(),
  reason: z.string().optional(),
})
export type PolicyInForce = z.infer<typeof policyInForce>

export const putPolicyParameters = z.strictObject({ ...reasoned, allow_missing: flag.optional() })
export const putPolicyHeaders = z.object({
  /** ETag of the version that was changed: `"7"`. A weak tag is well-formed and never matches (RFC 9110, section 13.1.1). */
  'if-match': z.string().regex(/^(W\/)?"\d{1,15}"$/, 'the ETag of the version that was changed, like "7"'),
})
export const publishedPolicy = z.object({
  version: z.int().min(0),
  /** False if the same document was already in force. */
  changed: z.boolean(),
  warnings: z.array(z.object({ path: z.string(), message: z.string() })),
})
export type PublishedPolicy = z.infer<typeof publishedPolicy>

export const explainParameters = z.strictObject({ from: agentName, to: agentName })
export const explainedPolicy = z.object({
  from: agentName,
  to: agentName,
  version: z.int().min(0),
  policy_name: z.string(),
  /** True if `to` is in the registry. */
  registered: z.boolean(),
  fields: z.array(z.object({ field: z.string(), value: z.unknown().optional(), level: z.string(), path: z.string() })),
})
export type ExplainedPolicy = z.infer<typeof explainedPolicy>

export const deadLettersParameters = z.strictObject({
  ...parties,
  state: z.enum(['pending', 'open', 'requeued', 'dropped']).optional(),
  limit: wholeNumber(1, 500).optional(),
  before: wholeNumber(1, Number.MAX_SAFE_INTEGER).optional(),
})
/** Newest first. `next` is the `before` of the next page. */
export const deadLettersPage = z.object({ letters: z.array(deadLetter), next: z.int().optional() })
export type DeadLettersPage = z.infer<typeof deadLettersPage>

export const shownLetter = z.object({
  letter: deadLetter,
  error: passError,
  /** The offending bytes, up to 64 KiB, also as text if they are text. */
  data_base64: z.string().optional(),
  text: z.string().optional(),
})
export type ShownLetter = z.infer<typeof shownLetter>

export const settleLetter = z.strictObject({ reason: text(LIMITS.line).optional(), ...parties })
export const settledLetter = z.object({
  id: z.string(),
  action: z.enum(['requeue', 'drop']),
  /** False if it was settled before; `by` is the person who did. */
  done: z.boolean(),
  by: z.string(),
  unverified: z.literal(true).optional(),
  requeued_as: z.string().optional(),
  status: z.string().optional(),
})
export type SettledLetter = z.infer<typeof settledLetter>
