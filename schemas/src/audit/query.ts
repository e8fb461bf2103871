import { z } from 'zod'
import { filled, text, time } from '../base/bounded-types.js'
import { errorCode, passError } from '../base/errors.js'
import { agentName } from '../base/identifiers.js'
import { LIMITS } from '../base/limits.js'
import { PASS_STATUSES } from '../pass/return-context.js'
import { auditStatus, passOverAuditEntry, recordedDecision } from './audit-record.js'
import { passRow } from './query-responses.js'

/** Where a pass stands (PassStatus), or what its audit entry says of its end: a query may name the words of both. */
export const QUERY_STATUSES = [...PASS_STATUSES, ...auditStatus.exclude(['refused', 'cancelled', 'timed_out']).options] as const
export const queryStatus = z.enum(QUERY_STATUSES)
export type QueryStatus = z.infer<typeof queryStatus>

/** A decision that counts: about this item, with this verdict, by this person; what is left out is any. */
export const decisionFilter = z.strictObject({
  item: z.enum(['dispatch', 'return', 'apply']).optional(),
  verdict: z.enum(['approve', 'deny']).optional(),
  person: filled(LIMITS.short).optional(),
})
export type DecisionFilter = z.infer<typeof decisionFilter>

/** Most entries of one page. */
export const MAX_PAGE = 500
export const DEFAULT_PAGE = 50

/**
 * Which passes are meant, newest first by when they were asked for. Every field narrows. A page is stable under writes: the
 * cursor names the position of the last entry, so what came meanwhile is before it and nothing is told twice.
 */
export const passQuery = z.strictObject({
  session_id: text(LIMITS.short).optional(),
  originator: agentName.optional(),
  subagent: agentName.optional(),
  status: queryStatus.optional(),
  /** Asked for at or after `from` and before `to`, server ms. */
  from: time.optional(),
  to: time.optional(),
  decision: decisionFilter.optional(),
  code: errorCode.optional(),
  /** Part of its reason, objective or summary, whatever its case. */
  text: filled(200).optional(),
  limit: z.int().positive().max(MAX_PAGE).optional(),
  /** Of the page before, with the same filters. */
  cursor: filled(120).optional(),
})
export type PassQuery = z.infer<typeof passQuery>
/** The same without what pages it. */
export type PassFilter = Omit<PassQuery, 'limit' | 'cursor'>

/** One pass that was asked for: its row, its audit entry once it has ended, and its decisions, if there are any. */
export const queriedPass = z.object({ row: passRow, entry: passOverAuditEntry.optional(), decisions: z.array(recordedDecision).optional() })
export type QueriedPass = z.infer<typeof queriedPass>

/**
 * To `{ op: 'query' }`. With a cursor there may be more, also when the page holds less than its limit (or nothing): then its time or its bytes
 * were used up, and `scanned` says how far back it has looked. Without one that was all.
 */
export const queryAnswer = z.union([
  z.object({
    ok: z.literal(true),
    entries: z.array(queriedPass),
    cursor: z.string().optional(),
    scanned: z.object({ passes: z.int(), since: z.number().optional() }).optional(),
    /** False: the index is still being filled after a start, and what is missing here may come. */
    complete: z.boolean(),
  }),
  z.object({ ok: z.literal(false), error: passError }),
])
export type QueryAnswer = z.infer<typeof queryAnswer>

const quantiles = z.object({ count: z.int(), p50: z.number().optional(), p99: z.number().optional() })

/** Counts of one group; `wall_ms`: from the request to the return, of those that ended. */
export const statsGroup = z.object({ name: z.string(), count: z.int(), wall_ms: quantiles })
export type StatsGroup = z.infer<typeof statsGroup>
export const STATS_BY = ['month', 'session', 'pair', 'status', 'code'] as const
export type StatsBy = (typeof STATS_BY)[number]

/** To `{ op: 'stats' }`: of each kind the largest groups; `left_out`: how many smaller ones there are. */
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
 * To `{ op: 'index' }`: how many records were compared with the audit's index, how many lines of it differ, and how many of these were mended;
 * `shown` names some. `complete` false: the index is still being filled after a start, and nothing was compared.
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

/** What is asked about recorded passes; an agent is told about its own. Statistics take no text and no cursor. */
export const queryQuestions = [
  passQuery.extend({ op: z.literal('query') }),
  passQuery.omit({ text: true, limit: true, cursor: true }).extend({ op: z.literal('stats') }),
  /** Compares the audit's index with the records; `mend`: lines that differ become what the records say. For people alone. */
  z.object({ op: z.literal('index'), mend: z.literal(true).optional() }),
] as const
