import { z } from 'zod'
import { passOverAuditEntry } from '../audit/audit-record.js'
import { MAX_PAGE, queryStatus } from '../audit/query.js'
import { passRow } from '../audit/query-responses.js'
import { filled, text } from '../base/bounded-types.js'
import { errorCode } from '../base/errors.js'
import { agentName } from '../base/identifiers.js'
import { LIMITS } from '../base/limits.js'
import { returnToContext } from '../pass/return-context.js'
import { cursor, givenTime, wholeNumber } from './parameters.js'

/** Filters by session and time, and those of PassQuery. */
const filters = {
  session_id: text(LIMITS.short).optional(),
  originating_agent: agentName.optional(),
  subagent: agentName.optional(),
  /** Asked for at or after, and before: Unix seconds or milliseconds. */
  start_time: givenTime.optional(),
  end_time: givenTime.optional(),
  status: queryStatus.optional(),
}

/** Passes in one page of returns: each is read whole. */
export const MAX_RETURNS = 50

export const auditParameters = z.strictObject({
  ...filters,
  /** Whether and what a person decided. */
  decision: z.enum(['approve', 'deny']).optional(),
  decided_by: filled(LIMITS.short).optional(),
  item: z.enum(['dispatch', 'return', 'apply']).optional(),
  code: errorCode.optional(),
  /** Part of reason, objective or summary. */
  text: filled(200).optional(),
  limit: wholeNumber(1, MAX_PAGE).optional(),
  cursor: cursor.optional(),
})
export type AuditParameters = z.infer<typeof auditParameters>

export const returnsParameters = z.strictObject({ ...filters, limit: wholeNumber(1, MAX_RETURNS).optional(), cursor: cursor.optional() })
export type ReturnsParameters = z.infer<typeof returnsParameters>

const paging = {
  /** Give it back for what comes after; absent: that was all. */
  cursor: z.string().optional(),
  /** False: the audit still reads after a start, and what is missing may come. */
  complete: z.boolean(),
  /** How far back it has looked, where time was up before the page was full. */
  scanned: z.object({ passes: z.int(), since: z.number().optional() }).optional(),
}

/** Ended passes, newest first. */
export const auditPage = z.object({ entries: z.array(passOverAuditEntry), ...paging })
export type AuditPage = z.infer<typeof auditPage>

export const passesPage = z.object({ passes: z.array(passRow), ...paging })
export type PassesPage = z.infer<typeof passesPage>

/** ReturnToContext of each pass that was admitted or held. */
export const returnsPage = z.object({ returns: z.array(returnToContext), ...paging })
export type ReturnsPage = z.infer<typeof returnsPage>
