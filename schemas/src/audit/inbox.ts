import { z } from 'zod'
import { passError } from '../base/errors.js'
import { storedKey } from '../base/identifiers.js'

/** Key of a pass in an answer; ids may also be `bad-<sequence>`. */
const key = storedKey.extend({ id: z.string().max(64) })

/** Property of a change that its diff does not make obvious. `message` is safe to print; `characters` are named, not raw. */
export const changeWarning = z.object({
  kind: z.enum(['hidden_characters', 'mixed_scripts', 'runs_by_itself', 'executable', 'encoding', 'line_ends', 'inconsistent']),
  message: z.string(),
  characters: z.array(z.string()).optional(),
})
export type ChangeWarning = z.infer<typeof changeWarning>

/** A file's content before or after a change. */
const shownSide = z.object({
  size: z.int().min(0),
  sha256: z.string(),
  /** Format of a binary file, from its first bytes. */
  type: z.string().optional(),
  /** Permission bits. Absent if unknown. */
  mode: z.int().optional(),
})

/** Combined effect of approved changes on one file, the same in the terminal, HTTP and the inbox. Texts are the original values, not escaped. */
export const shownFile = z.object({
  path: z.string(),
  operation: z.enum(['create', 'modify', 'delete']),
  /** Numbers of the changes that it consists of, as for `--only`. */
  numbers: z.array(z.int().positive()),
  before: shownSide.optional(),
  after: shownSide.optional(),
  added: z.int().min(0),
  removed: z.int().min(0),
  /** A unified diff. Absent if `omitted` is set. */
  diff: z.string().optional(),
  omitted: z.enum(['binary', 'too_many_changes']).optional(),
  warnings: z.array(changeWarning),
})
export type ShownFile = z.infer<typeof shownFile>

/** One proposed change, as shown to the person who decides; `number` is the number for `--only`. */
export const shownModification = z.object({
  number: z.int().positive(),
  path: z.string(),
  operation: z.enum(['create', 'modify', 'delete']),
  /** Number of added lines; `removed` counts the removed ones. */
  added: z.int().min(0),
  removed: z.int().min(0),
  reason: z.string(),
  confidence: z.string(),
  /** Name of the change in a decision. */
  digest: z.string(),
  /** Set if there are no line counts, because the content is binary or there are too many changes. */
  omitted: z.enum(['binary', 'too_many_changes']).optional(),
  warnings: z.array(changeWarning).optional(),
})
export type ShownModification = z.infer<typeof shownModification>

export const shownFinding = z.object({
  severity: z.enum(['error', 'warning', 'info']),
  message: z.string(),
  path: z.string().optional(),
  line: z.int().optional(),
})
export type ShownFinding = z.infer<typeof shownFinding>

/** The request, for item `dispatch`. */
const askedFor = z.object({
  objective: z.string().optional(),
  /** Reason why the objective, or the end of it, is not included. */
  objective_left_out: z.string().optional(),
  files: z.array(z.object({ path: z.string(), size: z.int().min(0) })),
  files_left_out: z.int().positive().optional(),
  context_bytes: z.int().min(0),
  timeout_ms: z.number(),
  constraints: z.array(z.string()),
})
export type AskedFor = z.infer<typeof askedFor>

/** The return, for items `return` and `apply`. */
const cameBack = z.object({
  status: z.string(),
  decision: z.string().optional(),
  summary: z.string().optional(),
  /** Number of findings by severity; the most severe ones are in `shown`. */
  findings: z.object({ error: z.int(), warning: z.int(), info: z.int(), shown: z.array(shownFinding) }),
  modifications: z.array(shownModification),
  modifications_left_out: z.int().positive().optional(),
})
export type CameBack = z.infer<typeof cameBack>

/** An agent whose credentials a person revoked, and when (server ms). */
export const revokedAgent = z.object({ agent: z.string(), at: z.number() })
export type RevokedAgent = z.infer<typeof revokedAgent>

/** An item that waits for a person, with what can be shown of it (docs/architecture/protocol.md#release-and-apply). Times are server ms. */
export const inboxItem = z.object({
  item: z.enum(['dispatch', 'return', 'apply']),
  originator: z.string(),
  subagent: z.string(),
  id: z.string(),
  /** The root pass of the chain, whose originator's inbox contains the item. */
  root: key,
  /** Agents from the root's originator down to this pass's subagent. */
  chain: z.array(z.string()),
  parent: z.string().optional(),
  session_id: z.string().optional(),
  user_id: z.string().optional(),
  priority: z.string().optional(),
  reason: z.string(),
  requested_at: z.number(),
  since: z.number(),
  expires_at: z.number(),
  /** Digest of what is decided: the request, or the stored return. A decision must name it. */
  digest: z.string(),
  /** Persons who may decide. Absent: every person who takes no part in it. */
  approvers: z.array(z.string()).optional(),
  /** The only person of a local server, who may decide although they take part in it. */
  local_person: z.string().optional(),
  /** The first agent in `chain` whose credentials were revoked. An approval must confirm that it is given despite that. */
  revoked: revokedAgent.optional(),
  policy: z.object({ name: z.string(), version: z.int() }),
  /** Reason why a return is not delivered without a release. */
  why: z.string().optional(),
  asked: askedFor.optional(),
  returned: cameBack.optional(),
})
export type InboxItem = z.infer<typeof inboxItem>

/**
 * Left out because the inbox was full: items of `originator`, under passes of `root_originator`, may wait until that time (server ms) without being
 * listed.
 */
export const inboxLeftOut = z.object({ originator: z.string(), root_originator: z.string(), until: z.number() })

/** Answer to `{ op: 'inbox' }`. Originators take turns to fill a page, which is sorted oldest first; `next` continues after the limit. */
export const inboxAnswer = z.union([
  z.object({
    ok: z.literal(true),
    items: z.array(inboxItem),
    more: z.boolean(),
    next: z.string().optional(),
    left_out: z.array(inboxLeftOut).optional(),
  }),
  z.object({ ok: z.literal(false), error: passError }),
])
export type InboxAnswer = z.infer<typeof inboxAnswer>
