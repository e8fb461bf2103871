import { z } from 'zod'
import { text } from './bounded-types.js'

/** One thing that a process needs for its work, or only tells of. Times are ms. */
export const healthCheck = z.object({
  name: text(64),
  /** `needed`: without it the process is not ready. `told`: it works all the same. */
  weight: z.enum(['needed', 'told']),
  /** `failed`: it will not mend by itself. */
  state: z.enum(['ok', 'recovering', 'failed']),
  since: z.number(),
  /** What is wrong, or worth knowing. */
  what: text(1_024),
  /** A restart of the process would mend it: what liveness is about. */
  restart_helps: z.boolean(),
  /** What the process did about it last, and when. */
  did: z.object({ what: text(1_024), at: z.number(), times: z.int().min(0) }).optional(),
})
export type HealthCheck = z.infer<typeof healthCheck>

/** How a process is: what `/livez` and `/readyz` answer, and `passover doctor` reads. */
export const healthReport = z.object({
  v: z.literal(1),
  process: text(128),
  /** False: only a restart would help. */
  live: z.boolean(),
  /** True: it does its work now. */
  ready: z.boolean(),
  checks: z.array(healthCheck).max(256),
})
export type HealthReport = z.infer<typeof healthReport>
