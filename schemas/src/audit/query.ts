import { z } from 'zod'
import { filled, text, time } from '../base/bounded-types.js'
import { errorCode, passError } from '../base/errors.js'
import { agentName, storedId } from '../base/identifiers.js'
import { LIMITS } from '../base/limits.js'
import { PASS_STATUSES } from '../pass/return-context.js'
import { auditStatus, passOverAuditEntry, recordedDecision } from './audit-record.js'
import { passRow } from './query-responses.js'

/** Status of a pass (PassStatus), or the status in its audit entry: a query accepts both. */
export const QUERY_STATUSES = [...PASS_STATUSES, ...auditStatus.exclude(['refused', 'cancelled', 'timed_out']).options] as const
export const queryStatus = z.enum(QUERY_STATUSES)
export type QueryStatus = z.infer<typeof queryStatus>

/** Filter for decisions that count, by item, verdict and person. An absent field matches anything. */
export const decisionFilter = z.strictObject({
  item: z.enum(['dispatch', 'return', 'apply']).optional(),
  verdict: z.enum(['approve', 'deny']).optional(),
  person: filled(LIMITS.short).optional(),
})
export type DecisionFilter = z.infer<typeof decisionFilter>

/** Maximum number of entries per page. */
export const MAX_PAGE = 500
export const DEFAULT_PAGE = 50

/**
 * Filter for passes, newest request first. Every field narrows it. Pages are stable under writes: the cursor is the position of the last entry, so
 * newer passes are before it and no entry appears twice.
 */
export const passQuery = z.strictObject({
  session_id: text(LIMITS.short).optional(),
  originator: agentName.optional(),
  subagent: agentName.optional(),
  status: queryStatus.optional(),
  /** Requested at or after `from` and before `to`, server ms. */
  from: time.optional(),
  to: time.optional(),
  decision: decisionFilter.optional(),
  code: errorCode.optional(),
  /** Text in its reason, objective or summary; case-insensitive. */
  text: filled(200).optional(),
  limit: z.int().positive().max(MAX_PAGE).optional(),
  /** Cursor of the previous page, with the same filters. */
  cursor: filled(120).optional(),
})
export type PassQuery = z.infer<typeof passQuery>
/** The filter without the paging fields. */
export type PassFilter = Omit<PassQuery, 'limit' | 'cursor'>

/** One matching pass: its row, its audit entry once it has ended, and its decisions, if any. */
export const queriedPass = z.object({ row: passRow, entry: passOverAuditEntry.optional(), decisions: z.array(recordedDecision).optional() })
export type QueriedPass = z.infer<typeof queriedPass>

/**
 * Answer to `{ op: 'query' }`. If it has a cursor, there may be more entries, even if the page has fewer entries than its limit: the
 * limit of time or bytes was reached, and `scanned` says how far back the search went. Without a cursor, the result is complete.
 */
export const queryAnswer = z.union([
  z.object({
    ok: z.literal(true),
    entries: z.array(queriedPass),
    cursor: z.string().optional(),
    scanned: z.object({ passes: z.int(), since: z.number().optional() }).optional(),
    /** False while the index is being filled after a start: more entries may follow later. */
    complete: z.boolean(),
  }),
  z.object({ ok: z.literal(false), error: passError }),
])
export type QueryAnswer = z.infer<typeof queryAnswer>

const quantiles = z.object({ count: z.int(), p50: z.number().optional(), p99: z.number().optional() })

/** Counts of one group. `wall_ms`: time from the request to the return, of passes that ended. */
export const statsGroup = z.object({ name: z.string(), count: z.int(), wall_ms: quantiles })
export type StatsGroup = z.infer<typeof statsGroup>
export const STATS_BY = ['month', 'session', 'pair', 'status', 'code'] as const
export type StatsBy = (typeof STATS_BY)[number]

/** Answer to `{ op: 'stats' }`: the largest groups of each kind. `left_out`: number of smaller groups. */
export const statsAnswer = z.union([
  z.object({
    ok: z.literal(true),
    passes: z.int(),
    wall_ms: quantiles,
    by: z.record(z.enum(STATS_BY), z.object({ groups: z.array(statsGroup), left_out: z.int() })),
    complete: z.boolean(),
  }),
  z.object({ ok: z.literal(false), error: passError }),
])
export type StatsAnswer = z.infer<typeof statsAnswer>

/**
 * Answer to `{ op: 'index' }`: number of records compared with the audit service's index, of index lines that differ, and of those that were
 * repaired; `shown` lists some. If `complete` is false, the index is still being filled after a start, and nothing was compared.
 */
export const indexAnswer = z.union([
  z.object({
    ok: z.literal(true),
    complete: z.boolean(),
    records: z.int(),
    wrong: z.int(),
    mended: z.int(),
    shown: z.array(z.object({ pass: z.string().optional(), what: z.string() })),
  }),
  z.object({ ok: z.literal(false), error: passError }),
])
export type IndexAnswer = z.infer<typeof indexAnswer>

/** Name in a subject. Wider than `agentName`, because messages with reserved names may be stored too. */
const keyToken = z.string().regex(/^[A-Za-z0-9_-]{1,64}$/)

/** Maximum number of passes, or records, that one `repair` question names. */
export const MAX_REPAIRS = 64

/**
 * Answer to `{ op: 'repair' }`: how many of the named records were correct, were written, were deleted because no message of their pass is stored, or
 * were not changed because their pass is too old to be read or must have no record. `lost`: why the index of the segment could not be repaired.
 */
export const repairAnswer = z.union([
  z.object({
    ok: z.literal(true),
    unchanged: z.int(),
    rewritten: z.int(),
    removed: z.int(),
    kept: z.int(),
    unlogged: z.int(),
    lost: z.string().optional(),
  }),
  z.object({ ok: z.literal(false), error: passError }),
])
export type RepairAnswer = z.infer<typeof repairAnswer>

/** Questions about recorded passes. An agent gets its own only. Statistics accept neither text nor cursor. */
export const queryQuestions = [
  passQuery.extend({ op: z.literal('query') }),
  passQuery.omit({ text: true, limit: true, cursor: true }).extend({ op: z.literal('stats') }),
  /** Compares the audit service's index with the records. `mend`: corrects the lines that differ. For people only. */
  z.object({ op: z.literal('index'), mend: z.literal(true).optional() }),
  /**
   * Rebuilds records from the stored messages: the records of `passes` (`request`: the sequence of a request without an answer) and the records under the
   * keys `records` in the bucket. `index`: the segment of the archive whose index is repaired. The audit service reads all messages itself, so the
   * asker cannot change the content of a record. For people only.
   */
  z.object({
    op: z.literal('repair'),
    passes: z
      .array(z.object({ originator: keyToken, subagent: keyToken, id: storedId, request: z.int().positive().optional() }))
      .max(MAX_REPAIRS)
      .optional(),
    records: z
      .array(
        z
          .string()
          .max(512)
          .regex(/^[A-Za-z0-9_=/-]+(?:\.[A-Za-z0-9_=/-]+)*$/),
      )
      .max(MAX_REPAIRS)
      .optional(),
    index: z.int().min(0).optional(),
  }),
] as const
