import { z } from 'zod'
import { passError } from '../base/errors.js'
import { passKey } from '../base/identifiers.js'
import { agentRecord } from '../policy/agent-record.js'
import { inboxItem, revokedAgent } from './inbox.js'

/** What the audit service answers on `ask.<name>` (docs/architecture/audit-archive.md#answers). Questions are in wire.ts. What cannot be answered is `{ ok: false, error }`. */
const refusal = z.object({ ok: z.literal(false), error: passError })

/** To `{ op: 'time' }`: the server's time, ms; how long ids may be used, ms; and whether requests are taken, where that was asked. */
/**
 * `sees_all`: the asker sees every pass, not only its own; `has_people`: the audit knows at least one person; `trouble`: failing health checks of
 * the audit, for an asker that sees all.
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
    /** Present when the installation checks no names: any process can claim one. */
    names: z.literal('unverified').optional(),
  }),
  refusal,
])
export type TimeAnswer = z.infer<typeof timeAnswer>

/** The return step as it was stored; `data` are its bytes, decoded by `content_type` (or by sniffing). */
export const storedReturn = z.object({
  sequence: z.int().positive(),
  time: z.number(),
  by: z.string(),
  attempt: z.int().min(0),
  content_type: z.string().optional(),
  data: z.custom<Uint8Array>((value) => value instanceof Uint8Array),
})
export type StoredReturn = z.infer<typeof storedReturn>

/** A decision that counts (by an approver, the first of its item). The digest of item `return` is the SHA-256 of the return's stored bytes. */
export const answeredDecision = z.object({
  item: z.string(),
  person: z.string(),
  verdict: z.enum(['approve', 'deny']),
  digest: z.string(),
  sequence: z.int(),
  time: z.number(),
  reason: z.string().optional(),
  /** Of item `apply`: each modification's digest as taken or rejected. */
  modifications: z.record(z.string(), z.enum(['taken', 'rejected'])).optional(),
  self: z.literal('local').optional(),
  unverified: z.literal(true).optional(),
})
export type AnsweredDecision = z.infer<typeof answeredDecision>

/** One line of `list`: what a pass is about and where it stands. Times in server ms. */
export const passRow = z.object({
  originator: z.string(),
  subagent: z.string(),
  /** Also `bad-<sequence>`, the refusal of a malformed request. */
  id: z.string(),
  status: z.string(),
  session_id: z.string().optional(),
  reason: z.string().optional(),
  priority: z.string().optional(),
  created_at: z.number(),
  /** When it ends at the latest: the deadline, or the approval's expiry while held. */
  deadline: z.number().optional(),
  ended_at: z.number().optional(),
  attempt: z.int().optional(),
  /** Of a pass that ended without an output. */
  code: z.string().optional(),
  /** WorkOutput.status of a returned one. */
  output_status: z.string().optional(),
  /** keyText of the parent. */
  parent: z.string().optional(),
  chain_depth: z.int().optional(),
  retry_of: z.string().optional(),
  /** Of a pass that died: the one that tries it again, or who dropped it. */
  requeued_as: z.string().optional(),
  dropped_by: z.string().optional(),
  return_sequence: z.int().optional(),
  /** How far it is for its originator (SendStatus). */
  send: z.string().optional(),
  /** When its originator was late to acknowledge its return (E022). */
  undelivered_at: z.number().optional(),
  last_sequence: z.int(),
})
export type PassRow = z.infer<typeof passRow>

/** One stored message of a pass, as a person reads it. */
export const timelineEntry = z.object({
  sequence: z.int(),
  time: z.number(),
  /** request, held, work, fence, return, decision, or an event's kind. */
  kind: z.string(),
  by: z.string(),
  attempt: z.int().optional(),
  /** Item and verdict of a decision, code or status of a return, message of a progress. */
  detail: z.string().optional(),
  /** Of a decision: whether it counts, and why not. */
  counts: z.boolean().optional(),
  why: z.string().optional(),
  self: z.literal('local').optional(),
  unverified: z.literal(true).optional(),
  /** Why the fold ignores it: a violation. */
  ignored: z.string().optional(),
})
export type TimelineEntry = z.infer<typeof timelineEntry>

export const answeredPass = z.object({
  key: passKey.extend({ id: z.string().max(64) }),
  /** requested, held, waiting_for_return, returned, awaiting_release, processed, refused, timed_out or cancelled. */
  status: z.string(),
  row: passRow,
  /** Digest that the journal's first step carries; absent while it is only requested. */
  digest: z.string().optional(),
  /** When it ends at the latest, server ms: the deadline, or the approval's expiry while held. */
  deadline: z.number().optional(),
  /** Control frame (WorkControl) of its work or held step. */
  control: z.record(z.string(), z.unknown()).optional(),
  return: storedReturn.optional(),
  /** The return was too large for an answer: it stands in the stream or the archive at the record's sequence. */
  return_left_out: z.boolean().optional(),
  /** Those of the record that count; what does not is in the record and the history, with why. */
  decisions: z.array(answeredDecision),
  /** The projection (PassRecord) of a pass that was admitted, held or ended. */
  record: z.record(z.string(), z.unknown()).optional(),
  /** With `history: true`: what was stored, in order. */
  history: z.array(timelineEntry).optional(),
  /** Entries of the history that were left out of its middle. */
  history_left_out: z.int().optional(),
  /** W3C Trace Context that its steps carry, where it is traced. */
  traceparent: z.string().max(256).optional(),
  /** With `due: true`: what of it waits for a person now. */
  due: inboxItem.optional(),
  /** For an asker that sees all: of the agents of its chain the first whose credentials were revoked. */
  revoked: revokedAgent.optional(),
  /** With `history: true`: passes asked for within it that the asker may see, newest first; `below_more`: there are more. */
  below: z.array(passRow).optional(),
  below_more: z.boolean().optional(),
})
export type AnsweredPass = z.infer<typeof answeredPass>

/** To `{ op: 'pass' }`: one entry for each pass with that id that the asker may see; none is E041. `left_out`: how many more there are. */
export const passAnswer = z.union([z.object({ ok: z.literal(true), passes: z.array(answeredPass), left_out: z.int().optional() }), refusal])
export type PassAnswer = z.infer<typeof passAnswer>

/** To `{ op: 'list' }`: newest first; `more`: the limit cut it off. */
export const listAnswer = z.union([z.object({ ok: z.literal(true), passes: z.array(passRow), more: z.boolean() }), refusal])
export type ListAnswer = z.infer<typeof listAnswer>

export const agentRow = z.object({
  agent: agentRecord,
  /** Passes it works on; passes that wait for it (requested, held); open passes that it originated. */
  open: z.int(),
  waiting: z.int(),
  originated: z.int(),
})
export type AgentRow = z.infer<typeof agentRow>

/** To `{ op: 'agents' }`, by name. */
export const agentsAnswer = z.union([z.object({ ok: z.literal(true), agents: z.array(agentRow) }), refusal])
export type AgentsAnswer = z.infer<typeof agentsAnswer>
