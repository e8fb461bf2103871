import { z } from 'zod'
import { capKeys, count, filled, jsonRecord, list, open, record, span, text, time } from '../base/bounded-types.js'
import { passError } from '../base/errors.js'
import { agentName, PRIORITIES, passId, passKey, storedId, storedKey, storedName } from '../base/identifiers.js'
import { LIMITS } from '../base/limits.js'
import { passOverMetadata } from '../pass/metadata.js'
import { passStatus } from '../pass/return-context.js'

/** Statuses of an audit entry. */
export const auditStatus = z.enum(['completed', 'failed', 'aborted', 'partial', 'refused', 'cancelled', 'timed_out'])
export type AuditStatus = z.infer<typeof auditStatus>

/** PassOverAuditEntry. Times of events that did not happen are absent. */
export const passOverAuditEntry = open({
  pass_over_id: storedId,
  session_id: text(LIMITS.short),
  timestamp: time,

  originating_agent: storedName,
  subagent: storedName,
  user_id: filled(LIMITS.short).optional(),

  reason: text(LIMITS.line),
  work_context_size_bytes: count,
  /** As requested; empty if the request has no hint. */
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

/** A stored decision. */
export const recordedDecision = open({
  item: text(LIMITS.word),
  person: text(LIMITS.short),
  verdict: z.enum(['approve', 'deny']),
  /** Digest of the content that the person was shown. */
  digest: text(LIMITS.short),
  sequence,
  time,
  reason: text(LIMITS.line).optional(),
  /** For a counted decision on item `apply`: `taken` or `rejected` by the digest of each modification. A modification that is not listed is rejected. */
  modifications: record(text(LIMITS.word), z.enum(['taken', 'rejected']), LIMITS.artifacts).optional(),
  /** False if the person is not an approver, or if the digest is not the digest of the held content. */
  counts: z.boolean().optional(),
  /** Reason why it does not count. */
  why: text(LIMITS.line).optional(),
  /** Set if the person takes part in the pass, as the only person of a local server. */
  self: z.literal('local').optional(),
  /** Set if the server does not check names: any process that can reach it may have made the decision. */
  unverified: z.literal(true).optional(),
})
export type RecordedDecision = z.infer<typeof recordedDecision>

/** The item of a pass that a person has to decide: the dispatch of a held pass, the release of its return, or the application of its changes. */
export const awaits = open({
  item: z.enum(['dispatch', 'return', 'apply']),
  /** Time at which it fell due, and time at which it expires to a denial; server ms. */
  since: time,
  expires_at: time,
})
export type Awaits = z.infer<typeof awaits>

/** The audit service's record of a pass, in KV: state, evidence and sequences in the stream. */
export const passRecord = open({
  v: z.literal(1),
  key: storedKey,
  status: passStatus,
  session_id: text(LIMITS.short).optional(),
  reason: text(LIMITS.line).optional(),
  priority: z.enum(PRIORITIES).optional(),
  /** The newest attempt; 0 before the work step. */
  attempt: count,
  digest: text(LIMITS.word).optional(),
  policy_version: count.optional(),
  chain_depth: count.optional(),
  ancestors: list(agentName, LIMITS.chain).optional(),
  root: passKey.optional(),
  parent: passKey.optional(),
  retry_of: passId.optional(),

  /** Times in server ms. */
  requested_at: time.optional(),
  held_at: time.optional(),
  admitted_at: time.optional(),
  /** Latest end: the deadline, or the expiry of the approval while held. */
  deadline: time.optional(),
  ended_at: time.optional(),

  /** Sequences of its messages in the stream. */
  sequences: open({
    requests: list(sequence, LIMITS.decisions),
    held: sequence.optional(),
    work: sequence.optional(),
    fences: list(sequence, LIMITS.decisions),
    return: sequence.optional(),
    late: list(sequence, LIMITS.decisions).optional(),
    /** The newest of all sequences, of any kind. Makes updates of the record idempotent. */
    last: sequence,
  }),

  /** Set once the pass has ended. */
  entry: passOverAuditEntry.optional(),
  metadata: capKeys(passOverMetadata.extend({ pass_over_id: storedId }), LIMITS.keys).optional(),
  error: passError.optional(),

  /**
   * Time at which the acknowledgment was overdue (E022), if the originator asked for delivery. The next field is the time of the acknowledgment, in
   * answers for which it was looked up.
   */
  undelivered_at: time.optional(),
  acknowledged_at: time.optional(),

  decisions: list(recordedDecision, LIMITS.decisions),
  awaits: awaits.optional(),
  /** The last application or undo, and the current state of each modification that was ever applied, by digest. */
  application: open({
    at: time,
    by: text(LIMITS.short),
    unverified: z.literal(true).optional(),
    modifications: record(text(LIMITS.word), z.enum(['applied', 'undone']), LIMITS.artifacts),
  }).optional(),
  /** Resolution of its dead letter by a person. */
  settlement: open({
    action: z.enum(['requeue', 'drop']),
    by: text(LIMITS.short),
    time,
    requeued_as: passId.optional(),
    reason: text(LIMITS.line).optional(),
    unverified: z.literal(true).optional(),
  }).optional(),
  /** Reason why the output_schema was not applied to the output, which may therefore violate it. */
  output_unchecked: text(LIMITS.line).optional(),
  /** Impossible steps according to the fold. */
  violations: list(open({ sequence, what: text(LIMITS.line) }), LIMITS.decisions).optional(),
})
export type PassRecord = z.infer<typeof passRecord>
