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
  /** Requested at or after `start_time` and before `end_time`: Unix seconds or milliseconds. */
  start_time: givenTime.optional(),
  end_time: givenTime.optional(),
  status: queryStatus.optional(),
}

/** Maximum number of passes in one page of returns: each is read completely. */
export const MAX_RETURNS = 50

export const auditParameters = z.strictObject({
  ...filters,
  /** Verdict, person and item of a decision. */
  decision: z.enum(['approve', 'deny']).optional(),
  decided_by: filled(LIMITS.short).optional(),
  item: z.enum(['dispatch', 'return', 'apply']).optional(),
  code: errorCode.optional(),
  /** Text in its reason, objective or summary. */
  text: filled(200).optional(),
  limit: wholeNumber(1, MAX_PAGE).optional(),
  cursor: cursor.optional(),
})
export type AuditParameters = z.infer<typeof auditParameters>

export const returnsParameters = z.strictObject({ ...filters, limit: wholeNumber(1, MAX_RETURNS).optional(), cursor: cursor.optional() })
export type ReturnsParameters = z.infer<typeof returnsParameters>

const paging = {
  /** Cursor of the next page. Absent on the last page. */
  cursor: z.string().optional(),
  /** False while the audit service still reads after a start: more entries may follow later. */
  complete: z.boolean(),
  /** Extent of the search so far, if its time limit was reached before the page was full. */
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
