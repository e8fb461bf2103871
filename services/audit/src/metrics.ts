import { counter, gauge, type MetricFamily } from '@passover/bus'
import type { EndedPasses } from './ended-passes.js'
import type { AuditStats } from './running.js'

/** An audit's numbers for `/metrics`. */
export function auditMetrics(stats: AuditStats, ended: EndedPasses): MetricFamily[] {
  return [
    ...ended.families(),
    gauge('passover_audit_open', 'Open passes in memory', stats.open),
    gauge('passover_audit_requests', 'Requests in memory that nothing answered yet', stats.requests),
    gauge('passover_audit_position', 'Sequence of the last message read', stats.position),
    gauge('passover_audit_lag_messages', 'Messages stored and not read yet, looked at once a second', stats.lag),
    counter('passover_audit_records_total', 'Records written', stats.kv_writes),
    counter('passover_audit_segments_total', 'Archive segments sealed', stats.segments),
    counter('passover_audit_violations_total', 'Violations recorded', stats.violations),
    counter('passover_audit_deleted_total', 'Archived messages deleted from the stream', stats.deleted),
  ]
}
