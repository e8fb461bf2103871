import { z } from 'zod'
import { text, time } from '../base/bounded-types.js'
import { agentName } from '../base/identifiers.js'
import { LIMITS } from '../base/limits.js'

/** Milliseconds after which a silent worker counts as gone; the bucket then expires its entry. */
export const PRESENCE_MAX_AGE_MS = 20_000
/** Largest message of the bucket, bytes: five times what a worker writes. */
export const PRESENCE_MAX_BYTES = 2_048
/** Maximum number of entries per agent. The server maps each key to one of this number of places. */
export const PRESENCE_PLACES = 512

/** A running worker: key `<agent>.<place>` of the bucket `presence`, written by the worker itself. Informational only. */
export const presenceRecord = z.object({
  agent: agentName,
  instance: text(LIMITS.word),
  host: text(LIMITS.short),
  pid: z.int().min(0),
  /** Maximum and current number of concurrent handlers. */
  concurrency: z.int().positive().max(LIMITS.handlers),
  running: z.int().min(0).max(LIMITS.handlers),
  /** Server ms. */
  started_at: time,
  seen_at: time,
})
export type PresenceRecord = z.infer<typeof presenceRecord>
