import type { PassQuery } from '@passover/schemas'
import { type AuditParameters, inMilliseconds } from '@passover/schemas/http'

/** Turns the parameters of the HTTP API (docs/reference/http-api.md) into a query for the audit service. */
export function toPassQuery(asked: AuditParameters): PassQuery {
  const { originating_agent, start_time, end_time, decision, decided_by, item, ...same } = asked
  const decided = { ...(decision ? { verdict: decision } : {}), ...(decided_by ? { person: decided_by } : {}), ...(item ? { item } : {}) }
  return {
    ...same,
    ...(originating_agent === undefined ? {} : { originator: originating_agent }),
    ...(start_time === undefined ? {} : { from: inMilliseconds(start_time) }),
    ...(end_time === undefined ? {} : { to: inMilliseconds(end_time) }),
    ...(Object.keys(decided).length === 0 ? {} : { decision: decided }),
  }
}
