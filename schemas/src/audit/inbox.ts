import { z } from 'zod'
import { passError } from '../base/errors.js'
import { passKey } from '../base/identifiers.js'

/** A pass by its names, as an answer tells it: ids may also be `bad-<sequence>`. */
const key = passKey.extend({ id: z.string().max(64) })

/** Something about a change that its diff does not make obvious. `message` is safe to print; `characters` are named, not raw. */
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
  /** What the first bytes of a binary file say it is. */
  type: z.string().optional(),
  /** Permission bits; absent where they are not known. */
  mode: z.int().optional(),
})

/** What approved changes do to one file in all: the same for the terminal, HTTP and the inbox. Texts are true values, not escaped. */
export const shownFile = z.object({
  path: z.string(),
  operation: z.enum(['create', 'modify', 'delete']),
  /** The changes that it is made of, as `--only` takes them. */
  numbers: z.array(z.int().positive()),
  before: shownSide.optional(),
  after: shownSide.optional(),
  added: z.int().min(0),
  removed: z.int().min(0),
  /** A unified diff; absent where `omitted` says why. */
  diff: z.string().optional(),
  omitted: z.enum(['binary', 'too_many_changes']).optional(),
  warnings: z.array(changeWarning),
})
export type ShownFile = z.infer<typeof shownFile>

/** One proposed change as a person decides about it; `number` is what `--only` takes. */
export const shownModification = z.object({
  number: z.int().positive(),
  path: z.string(),
  operation: z.enum(['create', 'modify', 'delete']),
  /** Lines. */
  added: z.int().min(0),
  removed: z.int().min(0),
  reason: z.string(),
  confidence: z.string(),
  /** What a decision names it by. */
  digest: z.string(),
  /** No line counts: the content is binary, or there are too many changes. */
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

/** What is asked for, of item `dispatch`. */
const askedFor = z.object({
  objective: z.string().optional(),
  /** Why the objective, or its end, is missing here. */
  objective_left_out: z.string().optional(),
  files: z.array(z.object({ path: z.string(), size: z.int().min(0) })),
  files_left_out: z.int().positive().optional(),
  context_bytes: z.int().min(0),
  timeout_ms: z.number(),
  constraints: z.array(z.string()),
})
export type AskedFor = z.infer<typeof askedFor>

/** What came back, of items `return` and `apply`. */
const cameBack = z.object({
  status: z.string(),
  decision: z.string().optional(),
  summary: z.string().optional(),
  /** How many of each severity; the gravest are shown. */
  findings: z.object({ error: z.int(), warning: z.int(), info: z.int(), shown: z.array(shownFinding) }),
  modifications: z.array(shownModification),
  modifications_left_out: z.int().positive().optional(),
})
export type CameBack = z.infer<typeof cameBack>

/** One thing that waits for a person, with what there is to see of it (docs/architecture/protocol.md#release-and-apply). Times in server ms. */
/** An agent whose credentials a person revoked, and when (server ms). */
export const revokedAgent = z.object({ agent: z.string(), at: z.number() })
export type RevokedAgent = z.infer<typeof revokedAgent>

export const inboxItem = z.object({
  item: z.enum(['dispatch', 'return', 'apply']),
  originator: z.string(),
  subagent: z.string(),
  id: z.string(),
  /** The pass at the top of the chain: whose inbox it is in. */
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
  /** Of what is decided about: the request, or the return as stored. A decision names it. */
  digest: z.string(),
  /** Who may decide; absent: every person who takes no part in it. */
  approvers: z.array(z.string()).optional(),
  /** The only person of a local server, who may decide although they take part in it. */
  local_person: z.string().optional(),
  /** Of the agents in `chain` the first whose credentials were revoked. An approval must say that it is despite that. */
  revoked: revokedAgent.optional(),
  policy: z.object({ name: z.string(), version: z.int() }),
  /** What keeps a return from being delivered by itself. */
  why: z.string().optional(),
  asked: askedFor.optional(),
  returned: cameBack.optional(),
})
export type InboxItem = z.infer<typeof inboxItem>

/** The inbox was full: items of `originator`, under passes of `root_originator`, may wait until then (server ms) without being listed. */
export const inboxLeftOut = z.object({ originator: z.string(), root_originator: z.string(), until: z.number() })

/** To `{ op: 'inbox' }`: originators take turns to fill a page, which is sorted oldest first; `next` continues where the limit cut it off. */
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
