import { agentName, PARTS_BYTES_LEAST, passOverPreferences } from '@passover/schemas'
import { z } from 'zod'

/** Options of a dispatcher, validated once at startup. All durations are in milliseconds. */
export const dispatcherOptions = z.strictObject({
  /** `open`: an agent registers itself when it starts to work, and any agent may originate. `closed`: a person registers agents. */
  registration: z.enum(['open', 'closed']).default('open'),
  /** The only person of a local server. This person may decide about their own passes. Set it only if there is exactly one person. */
  local_person: agentName.optional(),
  /** Policy in force while no live policy is published. */
  policy: z
    .strictObject({ version: z.int().min(0), document: passOverPreferences })
    .default({ version: 0, document: passOverPreferences.parse({}) }),
  /** Time for which an id counts as fresh (docs/architecture/protocol.md#ids). The stream keeps every pass at least twice as long. */
  id_window_ms: z.int().min(1_000).default(3_600_000),
  /** Time after which the timekeeper reads the body of a request that has no answer. Before that, it reads only the headers. */
  look_after_ms: z.int().positive().default(5_000),
  /** Maximum number of requests handled concurrently. Decisions have a limit of their own. */
  concurrency: z.int().positive().max(10_000).default(512),
  /**
   * Fairness between pairs (decision 64). A request with more than `ahead` requests before it is admitted out of turn, at most `out_of_turn` at a
   * time. While several pairs send requests and many requests have no answer, at most `concurrency_crowded` are handled in turn, so that each pair
   * waits behind few others.
   */
  ahead: z.int().positive().default(16),
  out_of_turn: z.int().positive().max(1_000).default(16),
  concurrency_crowded: z.int().positive().max(10_000).default(64),
  /** Maximum number of passes that are ended concurrently. */
  endings: z.int().positive().max(10_000).default(256),
  /** Time after which a decision about a pass that is still held is applied again. */
  redrive_ms: z.int().positive().default(30_000),
  /** Interval at which the live policy is read, in addition to being watched. */
  policy_ms: z.int().positive().default(2_000),
  /** Byte limit of each agent's parts bucket if its record sets none. By default, a share of the stream's limit. */
  parts_bytes: z.int().min(PARTS_BYTES_LEAST).optional(),
  snapshot_ms: z.int().positive().default(10_000),
  /** Interval at which the work consumers of registered agents are checked. */
  consumers_ms: z.int().positive().default(3_000),
  /**
   * Time for which a work consumer must be missing before it is created again. After this time, its workers know the age of the new consumer.
   */
  missing_ms: z.int().positive().default(3_000),
  /** Interval at which budget charges are compared with the outcome of their passes. */
  budgets_ms: z.int().positive().default(5_000),
  /** Interval at which the usage of the stream is checked. */
  water_ms: z.int().positive().default(2_000),
  /** Interval at which the existence of the stream and the buckets is checked. */
  stores_ms: z.int().positive().default(2_000),
  /** Time for which a journal step is retried while the server has no leader. */
  step_deadline_ms: z.int().positive().default(15_000),
  /** If false, this replica only runs the timekeeper. */
  admission: z.boolean().default(true),
  /** If false, this replica only admits. Limits and requests that cannot be read depend on the timekeeper and are left to other replicas. */
  timekeeper: z.boolean().default(true),
})
export type DispatcherOptions = z.infer<typeof dispatcherOptions>
export type DispatcherSettings = z.input<typeof dispatcherOptions>
