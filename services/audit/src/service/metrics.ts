import { counter, gauge } from '@passover/bus'
import { Registry } from 'prom-client'

export interface AuditStats {
  /** Sequence of the last message read, and how many were stored after it when last looked (once a second). */
  position: number
  lag: number
  /** Open passes and unanswered requests in memory. */
  open: number
  requests: number
  /** By this process: records written, segments sealed, violations published. */
  kv_writes: number
  segments: number
  violations: number
  /** Outputs whose output_schema was not applied: the budget of their agent was spent. */
  schema_unchecked: number
  /** Messages deleted from the stream by this process; the first segment that is not done with; passes left behind in those before. */
  deleted: number
  deleted_to: number
  undeleted: number
}

/** An audit's numbers for `/metrics`, but for those of the passes that it saw end. */
export function auditMetrics(stats: AuditStats): Registry {
  const registry = new Registry()
  gauge(registry, { name: 'passover_audit_open', help: 'Open passes in memory' }, stats.open)
  gauge(registry, { name: 'passover_audit_requests', help: 'Requests in memory that nothing answered yet' }, stats.requests)
  gauge(registry, { name: 'passover_audit_position', help: 'Sequence of the last message read' }, stats.position)
  gauge(registry, { name: 'passover_audit_lag_messages', help: 'Messages stored and not read yet, looked at once a second' }, stats.lag)
  counter(registry, { name: 'passover_audit_records_total', help: 'Records written' }, stats.kv_writes)
  counter(registry, { name: 'passover_audit_segments_total', help: 'Archive segments sealed' }, stats.segments)
  counter(registry, { name: 'passover_audit_violations_total', help: 'Violations recorded' }, stats.violations)
  counter(registry, { name: 'passover_audit_deleted_total', help: 'Archived messages deleted from the stream' }, stats.deleted)
  const unchecked = 'Outputs whose output_schema was not applied: the budget of its agent was spent'
  counter(registry, { name: 'passover_audit_schema_unchecked_total', help: unchecked }, stats.schema_unchecked)
  return registry
}
