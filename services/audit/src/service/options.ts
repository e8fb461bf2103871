import type { JournalRules } from '@passover/core'
import { agentName } from '@passover/schemas'
import { z } from 'zod'

/** Options of an audit process, validated once at the edge. Times in ms. */
export const auditOptions = z.strictObject({
  /** As the dispatchers have it: how long an id counts as fresh (docs/architecture/protocol.md#ids). */
  id_window_ms: z.int().min(1_000).default(3_600_000),
  /** False: passes are archived, but no records are written, whatever the policy says. */
  log_all_passes: z.boolean().default(true),
  /** A pass that stays open so long is written as open; one that only was asked for, later. */
  open_ms: z.int().positive().default(3_000),
  request_ms: z.int().positive().default(30_000),
  compression: z.enum(['gzip', 'none']).default('gzip'),
  /** Bytes of a segment held in memory; what is larger is read again when it is sealed. */
  buffer_bytes: z
    .int()
    .positive()
    .default(32 * 1024 * 1024),
  /** Bytes that passes which ended of late may hold, for what still happens to them. */
  ended_bytes: z
    .int()
    .positive()
    .default(16 * 1024 * 1024),
  /** False: nothing is deleted from the stream (docs/architecture/audit-archive.md#deletion-from-the-stream), by this process. */
  deletes: z.boolean().default(true),
  /** Of several audits one deletes: when it is gone without a word, another one does after this. */
  delete_lease_ms: z.int().min(1_000).default(30_000),
  /** How long a dead letter that nobody requeues or drops keeps its pass in the stream. */
  dead_letters_ms: z
    .int()
    .positive()
    .default(30 * 24 * 3_600_000),
  /** How often it is looked whether stream and buckets are there, and the same as before. */
  stores_ms: z.int().positive().default(2_000),
  /** False: a replica that answers no questions. */
  answers: z.boolean().default(true),
  /** Who is a person, and told about every pass, where names are enforced (permissions). */
  people: z.array(agentName).max(10_000).default([]),
  /** A project's own server, whose users are one person's: whoever is no registered agent is a person too. */
  open: z.boolean().default(false),
})
export type AuditOptions = z.infer<typeof auditOptions>
export type AuditSettings = z.input<typeof auditOptions>

/** How this process reads what is stored. An open server checks no names, so no name in a decision is verified. */
export function rulesOf({ id_window_ms, open }: Pick<AuditOptions, 'id_window_ms' | 'open'>): JournalRules {
  return { id_window_ms, ...(open ? { names: 'unverified' } : {}) }
}
