import type { JournalRules } from '@passover/core'
import { agentName } from '@passover/schemas'
import { z } from 'zod'

/** Options of an audit process, validated once at the edge. All times are in milliseconds. */
export const auditOptions = z.strictObject({
  /** Time for which an id counts as fresh; must equal the dispatchers' value (docs/architecture/protocol.md#ids). */
  id_window_ms: z.int().min(1_000).default(3_600_000),
  /** If false, passes are archived but get no records, whatever the policy says. */
  log_all_passes: z.boolean().default(true),
  /** Age at which an open pass gets a record. */
  open_ms: z.int().positive().default(3_000),
  /** Age at which a request that no step has answered gets a record. */
  request_ms: z.int().positive().default(30_000),
  compression: z.enum(['gzip', 'none']).default('gzip'),
  /** Number of bytes of a segment kept in memory; a larger segment is read again when it is sealed. */
  buffer_bytes: z
    .int()
    .positive()
    .default(32 * 1024 * 1024),
  /** Number of bytes kept in memory of passes that ended recently, for messages that still arrive for them. */
  ended_bytes: z
    .int()
    .positive()
    .default(16 * 1024 * 1024),
  /** If false, this process deletes nothing from the stream (docs/architecture/audit-archive.md#deletion-from-the-stream). */
  deletes: z.boolean().default(true),
  /** Lease of the one audit that deletes; if that process dies, another one takes over after this time. */
  delete_lease_ms: z.int().min(1_000).default(30_000),
  /** Time for which an unsettled dead letter keeps its pass in the stream. */
  dead_letters_ms: z
    .int()
    .positive()
    .default(30 * 24 * 3_600_000),
  /** Interval of the check that the stream and the buckets exist and were not replaced. */
  stores_ms: z.int().positive().default(2_000),
  /** If false, this replica answers no questions. */
  answers: z.boolean().default(true),
  /** Names of the people, who may see every pass. Relies on permissions that enforce names. */
  people: z.array(agentName).max(10_000).default([]),
  /** True on a project's own server with a single user: every name that is not a registered agent also counts as a person. */
  open: z.boolean().default(false),
})
export type AuditOptions = z.infer<typeof auditOptions>
export type AuditSettings = z.input<typeof auditOptions>

/** Returns the rules by which this process reads stored messages. An open server checks no names, so no name in a decision is verified. */
export function rulesOf({ id_window_ms, open }: Pick<AuditOptions, 'id_window_ms' | 'open'>): JournalRules {
  return { id_window_ms, ...(open ? { names: 'unverified' } : {}) }
}
