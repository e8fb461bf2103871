import { counter, gauge } from '@passover/bus'
import { Registry } from 'prom-client'

export interface AuditStats {
  /** Sequence of the last message read. */
  position: number
  /** Number of messages stored after `position`, as of the last check (once a second). */
  lag: number
  /** Number of open passes in memory. */
  open: number
  /** Number of unanswered requests in memory. */
  requests: number
  /** Numbers of records written, segments sealed and violations published by this process. */
  kv_writes: number
  segments: number
  violations: number
  /** Number of outputs whose output_schema was not applied because the budget of their agent was spent. */
  schema_unchecked: number
  /** Number of messages that this process deleted from the stream. */
  deleted: number
  /** Number of the first segment that the deleter has not finished. */
  deleted_to: number
  /** Number of passes and advisories that could not be deleted yet from earlier segments. */
  undeleted: number
}

/** Returns the audit's metrics for `/metrics`, except those about passes that it saw end. */
export function auditMetrics(stats: AuditStats): Registry {
  const registry = new Registry()
  gauge(registry, { name: 'passover_audit_open', help: 'Open passes in memory' }, stats.open)
  gauge(registry, { name: 'passover_audit_requests', help: 'Requests in memory without an answer' }, stats.requests)
  gauge(registry, { name: 'passover_audit_position', help: 'Sequence of the last message read' }, stats.position)
  gauge(registry, { name: 'passover_audit_lag_messages', help: 'Messages stored but not read yet, measured once per second' }, stats.lag)
  counter(registry, { name: 'passover_audit_records_total', help: 'Records written' }, stats.kv_writes)
  counter(registry, { name: 'passover_audit_segments_total', help: 'Archive segments sealed' }, stats.segments)
  counter(registry, { name: 'passover_audit_violations_total', help: 'Violations recorded' }, stats.violations)
  counter(registry, { name: 'passover_audit_deleted_total', help: 'Archived messages deleted from the stream' }, stats.deleted)
  const unchecked = 'Outputs not checked against their output_schema because the budget of the agent was used up'
  counter(registry, { name: 'passover_audit_schema_unchecked_total', help: unchecked }, stats.schema_unchecked)
  return registry
}
