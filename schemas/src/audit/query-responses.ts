import { z } from 'zod'
import { passError } from '../base/errors.js'
import { storedKey } from '../base/identifiers.js'
import { agentRecord } from '../policy/agent-record.js'
import { inboxItem, revokedAgent } from './inbox.js'

/**
 * Answers of the audit service on `ask.<name>` (docs/architecture/audit-archive.md#answers). Questions are in query-requests.ts. The answer to a
 * question that cannot be answered is `{ ok: false, error }`.
 */

const refusal = z.object({ ok: z.literal(false), error: passError })

/**
 * Archived segments that are older than the policy's retention and have to stay: `count` of them, and the oldest ones. `stream`: the message with
 * this sequence is still in the stream, because its pass is open, undelivered or a dead letter. `hold`: a legal hold or a pending erasure.
 */
const overdueArchive = z.object({
  count: z.int().positive(),
  segments: z.array(
    z.object({
      segment: z.int(),
      why: z.enum(['stream', 'hold']),
      sequence: z.int().optional(),
      originator: z.string().optional(),
      subagent: z.string().optional(),
      id: z.string().optional(),
    }),
  ),
})
export type OverdueArchive = z.infer<typeof overdueArchive>

/**
 * Answer to `{ op: 'time' }`: the server's time and the id window, both in ms, and, if asked, whether requests are accepted. `sees_all`: the asker
 * sees every pass, not only its own. `has_people`: the audit service knows at least one person. `trouble`: failing health checks of the audit
 * service, for an asker that sees all. `overdue`: for such an asker, what the archive keeps longer than the policy says.
 */
export const timeAnswer = z.union([
  z.object({
    ok: z.literal(true),
    now: z.number(),
    id_window_ms: z.number().optional(),
    requests: z.enum(['open', 'closed']).optional(),
    sees_all: z.boolean().optional(),
    has_people: z.boolean().optional(),
    trouble: z.array(z.string()).optional(),
    overdue: overdueArchive.optional(),
    /** Set if the installation does not check names: any process can claim one. */
    names: z.literal('unverified').optional(),
  }),
  refusal,
])
export type TimeAnswer = z.infer<typeof timeAnswer>

/** The stored return step; `data` are its bytes, decoded by `content_type` (or by sniffing). */
export const storedReturn = z.object({
  sequence: z.int().positive(),
  time: z.number(),
  by: z.string(),
  attempt: z.int().min(0),
  content_type: z.string().optional(),
  data: z.custom<Uint8Array>((value) => value instanceof Uint8Array),
})
export type StoredReturn = z.infer<typeof storedReturn>

/** A decision that counts: by an approver, and the first of its item. The digest for item `return` is the SHA-256 of the return's stored bytes. */
export const answeredDecision = z.object({
  item: z.string(),
  person: z.string(),
  verdict: z.enum(['approve', 'deny']),
  digest: z.string(),
  sequence: z.int(),
  time: z.number(),
  reason: z.string().optional(),
  /** For item `apply`: `taken` or `rejected` by the digest of each modification. */
  modifications: z.record(z.string(), z.enum(['taken', 'rejected'])).optional(),
  self: z.literal('local').optional(),
  unverified: z.literal(true).optional(),
})
export type AnsweredDecision = z.infer<typeof answeredDecision>

/** One line of `list`: a pass and its status. Times are server ms. */
export const passRow = z.object({
  originator: z.string(),
  subagent: z.string(),
  /** May be `bad-<sequence>`, the refusal of a malformed request. */
  id: z.string(),
  status: z.string(),
  session_id: z.string().optional(),
  reason: z.string().optional(),
  priority: z.string().optional(),
  created_at: z.number(),
  /** Latest end: the deadline, or the expiry of the approval while held. */
  deadline: z.number().optional(),
  ended_at: z.number().optional(),
  attempt: z.int().optional(),
  /** Error code of a pass that ended without an output. */
  code: z.string().optional(),
  /** WorkOutput.status of a pass that returned. */
  output_status: z.string().optional(),
  /** keyText of the parent. */
  parent: z.string().optional(),
  chain_depth: z.int().optional(),
  retry_of: z.string().optional(),
  /** For a dead letter: the pass that retries it, or the person who dropped it. */
  requeued_as: z.string().optional(),
  dropped_by: z.string().optional(),
  return_sequence: z.int().optional(),
  /** Delivery status for its originator (SendStatus). */
  send: z.string().optional(),
  /** Time at which the originator's acknowledgment was overdue (E022). */
  undelivered_at: z.number().optional(),
  last_sequence: z.int(),
})
export type PassRow = z.infer<typeof passRow>

/** One stored message of a pass, in a form for people. */
export const timelineEntry = z.object({
  sequence: z.int(),
  time: z.number(),
  /** request, held, work, fence, return, decision, or an event's kind. */
  kind: z.string(),
  by: z.string(),
  attempt: z.int().optional(),
  /** Item and verdict of a decision, code or status of a return, message of a progress. */
  detail: z.string().optional(),
  /** For a decision: whether it counts, and why not. */
  counts: z.boolean().optional(),
  why: z.string().optional(),
  self: z.literal('local').optional(),
  unverified: z.literal(true).optional(),
  /** Reason why the fold ignores it: it is a violation. */
  ignored: z.string().optional(),
})
export type TimelineEntry = z.infer<typeof timelineEntry>

export const answeredPass = z.object({
  key: storedKey.extend({ id: z.string().max(64) }),
  /** requested, held, waiting_for_return, returned, awaiting_release, expired, processed, refused, timed_out or cancelled. */
  status: z.string(),
  row: passRow,
  /** Digest in the journal's first step. Absent while the pass is only requested. */
  digest: z.string().optional(),
  /** Latest end, server ms: the deadline, or the expiry of the approval while held. */
  deadline: z.number().optional(),
  /** Control frame (WorkControl) of its work or held step. */
  control: z.record(z.string(), z.unknown()).optional(),
  return: storedReturn.optional(),
  /** Set if the return was too large for an answer. It is in the stream or the archive, at the sequence in the record. */
  return_left_out: z.boolean().optional(),
  /** Decisions of the record that count. The others are in the record and the history, with the reason. */
  decisions: z.array(answeredDecision),
  /** The record (PassRecord) of a pass that was admitted, held or ended. */
  record: z.record(z.string(), z.unknown()).optional(),
  /** With `history: true`: the stored messages, in order. */
  history: z.array(timelineEntry).optional(),
  /** Number of entries left out of the middle of the history. */
  history_left_out: z.int().optional(),
  /** W3C Trace Context in its steps, if it is traced. */
  traceparent: z.string().max(256).optional(),
  /** With `due: true`: its item that waits for a person now. */
  due: inboxItem.optional(),
  /** For an asker that may see all passes: the first agent of the chain whose credentials were revoked. */
  revoked: revokedAgent.optional(),
  /** With `history: true`: its children that the asker may see, newest first. `below_more`: there are more. */
  below: z.array(passRow).optional(),
  below_more: z.boolean().optional(),
})
export type AnsweredPass = z.infer<typeof answeredPass>

/**
 * Answer to `{ op: 'pass' }`: one entry for each pass with that id that the asker may see; E041 if there is none. `left_out`: number of passes that were left out.
 */
export const passAnswer = z.union([z.object({ ok: z.literal(true), passes: z.array(answeredPass), left_out: z.int().optional() }), refusal])
export type PassAnswer = z.infer<typeof passAnswer>

/** Answer to `{ op: 'list' }`, newest first. `more`: there are more passes than the limit. */
export const listAnswer = z.union([z.object({ ok: z.literal(true), passes: z.array(passRow), more: z.boolean() }), refusal])
export type ListAnswer = z.infer<typeof listAnswer>

export const agentRow = z.object({
  agent: agentRecord,
  /** Number of passes that it works on, of passes that wait for it (requested, held), and of open passes that it originated. */
  open: z.int(),
  waiting: z.int(),
  originated: z.int(),
})
export type AgentRow = z.infer<typeof agentRow>

/** The fields of another agent that an agent may read. */
export const otherAgentRow = z.object({ agent: agentRecord.pick({ name: true, roles: true }) })
export type OtherAgentRow = z.infer<typeof otherAgentRow>

/** Answer to `{ op: 'agents' }`, sorted by name. An asker that may not see every pass gets its own row, and names and roles of the others. */
export const agentsAnswer = z.union([z.object({ ok: z.literal(true), agents: z.array(z.union([agentRow, otherAgentRow])) }), refusal])
export type AgentsAnswer = z.infer<typeof agentsAnswer>
