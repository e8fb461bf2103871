import { z } from 'zod'
import { capKeys, count, filled, jsonRecord, list, open, record, span, text, time } from '../base/bounded-types.js'
import { passError } from '../base/errors.js'
import { agentName, passId, passKey, SLOTS, storedId } from '../base/identifiers.js'
import { LIMITS } from '../base/limits.js'
import { passOverMetadata } from '../pass/metadata.js'
import { passStatus } from '../pass/return-context.js'

/** Statuses of an audit entry. */
export const auditStatus = z.enum(['completed', 'failed', 'aborted', 'partial', 'refused', 'cancelled', 'timed_out'])
export type AuditStatus = z.infer<typeof auditStatus>

/** PassOverAuditEntry; times of what never happened are absent. */
export const passOverAuditEntry = open({
  pass_over_id: storedId,
  session_id: text(LIMITS.short),
  timestamp: time,

  originating_agent: agentName,
  subagent: agentName,
  user_id: filled(LIMITS.short).optional(),

  reason: text(LIMITS.line),
  work_context_size_bytes: count,
  /** As asked for; empty when the request gave no hint. */
  expected_output_type: text(LIMITS.word),

  started_at: time.optional(),
  completed_at: time.optional(),
  duration_ms: span.optional(),

  status: auditStatus,
  artifacts_count: count,
  files_modified_count: count,
  issues_found_count: count,

  returned: z.boolean(),
  returned_at: time.optional(),
  applied: z.boolean(),
  applied_by: filled(LIMITS.short).optional(),

  policy_applied: text(LIMITS.short),
  policy_overrides: jsonRecord,

  summary: text(LIMITS.page),
})
export type PassOverAuditEntry = z.infer<typeof passOverAuditEntry>

const sequence = z.int().positive()

/** A decision as it was stored. */
export const recordedDecision = open({
  item: text(LIMITS.word),
  person: text(LIMITS.short),
  verdict: z.enum(['approve', 'deny']),
  /** Of what was shown. */
  digest: text(LIMITS.short),
  sequence,
  time,
  reason: text(LIMITS.line).optional(),
  /** Of item `apply`, where it counts: each modification's digest as taken or rejected; unnamed is rejected. */
  modifications: record(text(LIMITS.word), z.enum(['taken', 'rejected']), LIMITS.artifacts).optional(),
  /** False: by someone who is no approver, or about something else than was held. */
  counts: z.boolean().optional(),
  /** Why it does not. */
  why: text(LIMITS.line).optional(),
  /** By a person who takes part in the pass, as the only person of a local server. */
  self: z.literal('local').optional(),
  /** The server that took it checks no names: any process that reaches it can have made the decision. */
  unverified: z.literal(true).optional(),
})
export type RecordedDecision = z.infer<typeof recordedDecision>

/** What a person has to decide about a pass, as its messages say: the dispatch of a held one, the release of its return, what of it is applied. */
export const awaits = open({
  item: z.enum(['dispatch', 'return', 'apply']),
  /** When it fell due, and when it expires to a denial; server ms. */
  since: time,
  expires_at: time,
})
export type Awaits = z.infer<typeof awaits>

/** What audit keeps of a pass in KV: state, evidence and where it stands in the stream. */
export const passRecord = open({
  v: z.literal(1),
  key: passKey.extend({ id: storedId }),
  status: passStatus,
  session_id: text(LIMITS.short).optional(),
  reason: text(LIMITS.line).optional(),
  priority: z.enum(SLOTS).optional(),
  /** The newest attempt; 0 before the work step. */
  attempt: count,
  digest: text(LIMITS.word).optional(),
  policy_version: count.optional(),
  chain_depth: count.optional(),
  ancestors: list(agentName, LIMITS.chain).optional(),
  root: passKey.optional(),
  parent: passKey.optional(),
  retry_of: passId.optional(),

  /** Server's ms. */
  requested_at: time.optional(),
  held_at: time.optional(),
  admitted_at: time.optional(),
  /** When it ends at the latest: the deadline, or the approval's expiry while held. */
  deadline: time.optional(),
  ended_at: time.optional(),

  /** Where its messages stand in the stream. */
  sequences: open({
    requests: list(sequence, LIMITS.decisions),
    held: sequence.optional(),
    work: sequence.optional(),
    fences: list(sequence, LIMITS.decisions),
    return: sequence.optional(),
    late: list(sequence, LIMITS.decisions).optional(),
    /** The newest of all, whatever its kind: projecting is idempotent by it. */
    last: sequence,
  }),

  /** Once it has ended. */
  entry: passOverAuditEntry.optional(),
  metadata: capKeys(passOverMetadata.extend({ pass_over_id: storedId }), LIMITS.keys).optional(),
  error: passError.optional(),

  /** When its originator, who asked for delivery, had not acknowledged its return in time (E022), and when it did, where that was asked. */
  undelivered_at: time.optional(),
  acknowledged_at: time.optional(),

  decisions: list(recordedDecision, LIMITS.decisions),
  awaits: awaits.optional(),
  /** What was last applied or undone, and where each modification that ever was applied stands now, by its digest. */
  application: open({
    at: time,
    by: text(LIMITS.short),
    unverified: z.literal(true).optional(),
    modifications: record(text(LIMITS.word), z.enum(['applied', 'undone']), LIMITS.artifacts),
  }).optional(),
  /** What a person did about its dead letter. */
  settlement: open({
    action: z.enum(['requeue', 'drop']),
    by: text(LIMITS.short),
    time,
    requeued_as: passId.optional(),
    reason: text(LIMITS.line).optional(),
    unverified: z.literal(true).optional(),
  }).optional(),
  /** Why its output_schema was not applied to its output, which may not fit it. */
  output_unchecked: text(LIMITS.line).optional(),
  /** Steps that the fold calls impossible. */
  violations: list(open({ sequence, what: text(LIMITS.line) }), LIMITS.decisions).optional(),
})
export type PassRecord = z.infer<typeof passRecord>
