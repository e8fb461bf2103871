import { agentName, PARTS_BYTES_LEAST, passOverPreferences } from '@passover/schemas'
import { z } from 'zod'

/** Options of a dispatcher, validated once at the edge. Times in ms. */
export const dispatcherOptions = z.strictObject({
  /** `open`: an agent registers itself by working, and anybody may originate. `closed`: a person registers agents. */
  registration: z.enum(['open', 'closed']).default('open'),
  /** The only person of a local server, who may decide about passes of their own. Set only where there is exactly one person. */
  local_person: agentName.optional(),
  /** What holds while there is no live policy. */
  policy: z
    .strictObject({ version: z.int().min(0), document: passOverPreferences })
    .default({ version: 0, document: passOverPreferences.parse({}) }),
  /** How long an id counts as fresh (docs/architecture/protocol.md#ids). The stream keeps every pass at least twice as long. */
  id_window_ms: z.int().min(1_000).default(3_600_000),
  /** A request that nothing answered is read whole after so long. */
  look_after_ms: z.int().positive().default(5_000),
  /** Requests and decisions handled at a time. */
  concurrency: z.int().positive().max(10_000).default(512),
  /**
   * A request that waits behind more than so many is admitted out of turn, so many at a time; and while several pairs ask and many requests
   * have no answer yet, no more than that are handled in turn, so that everybody's way is short (decision 64).
   */
  ahead: z.int().positive().default(16),
  out_of_turn: z.int().positive().max(1_000).default(16),
  concurrency_crowded: z.int().positive().max(10_000).default(64),
  /** Passes ended at a time. */
  endings: z.int().positive().max(10_000).default(256),
  /** How long a pass may stay held after a decision about it before that is tried again. */
  redrive_ms: z.int().positive().default(30_000),
  /** How often the live policy is read besides being watched. */
  policy_ms: z.int().positive().default(2_000),
  /** Byte limit of each agent's parts bucket, where its record says none; left out: a share of the stream's limit. */
  parts_bytes: z.int().min(PARTS_BYTES_LEAST).optional(),
  snapshot_ms: z.int().positive().default(10_000),
  /** How often the work consumers of registered agents are looked after. */
  consumers_ms: z.int().positive().default(3_000),
  /** How long a work consumer must be missing before it is made again: its workers then know the consumer's true age. */
  missing_ms: z.int().positive().default(3_000),
  /** How often it is looked at what became of passes that took from a budget. */
  budgets_ms: z.int().positive().default(5_000),
  /** How often it is looked at how full the stream is. */
  water_ms: z.int().positive().default(2_000),
  /** How often it is looked whether stream and buckets are there. */
  stores_ms: z.int().positive().default(2_000),
  /** How long one journal step is tried while the server has no leader. */
  step_deadline_ms: z.int().positive().default(15_000),
  /** False: a replica that only keeps time. */
  admission: z.boolean().default(true),
  /** False: a replica that only admits. What needs the timekeeper's reading is left to the others: limits, and requests that cannot be read. */
  timekeeper: z.boolean().default(true),
})
export type DispatcherOptions = z.infer<typeof dispatcherOptions>
export type DispatcherSettings = z.input<typeof dispatcherOptions>
