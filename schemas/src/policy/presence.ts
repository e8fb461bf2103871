import { z } from 'zod'
import { text, time } from '../base/bounded-types.js'
import { agentName } from '../base/identifiers.js'
import { LIMITS } from '../base/limits.js'

/** A worker that was not heard of for so long is gone, ms; the bucket forgets it by itself. */
export const PRESENCE_MAX_AGE_MS = 20_000
/** Largest message of the bucket, bytes: five times what a worker writes. */
export const PRESENCE_MAX_BYTES = 2_048
/** Entries that an agent can have. The server stores each key under one of so many places, which it derives from the key. */
export const PRESENCE_PLACES = 512

/** A worker that is up: key `<agent>.<place>` of the bucket `presence`, written by the worker itself. Nobody's work depends on it. */
export const presenceRecord = z.object({
  agent: agentName,
  instance: text(LIMITS.word),
  host: text(LIMITS.short),
  pid: z.int().min(0),
  /** Handlers that may run at a time, and that run. */
  concurrency: z.int().positive().max(LIMITS.handlers),
  running: z.int().min(0).max(LIMITS.handlers),
  /** Server ms. */
  started_at: time,
  seen_at: time,
})
export type PresenceRecord = z.infer<typeof presenceRecord>
