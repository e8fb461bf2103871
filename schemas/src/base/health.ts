import { z } from 'zod'
import { text } from './bounded-types.js'

/** Something that a process needs for its work, or only reports. Times are ms. */
export const healthCheck = z.object({
  name: text(64),
  /** `needed`: without it the process is not ready. `told`: only reported, the process works without it. */
  weight: z.enum(['needed', 'told']),
  /** `failed`: it will not recover without intervention. */
  state: z.enum(['ok', 'recovering', 'failed']),
  since: z.number(),
  /** The problem, or other information. */
  what: text(1_024),
  /** True if a restart of the process would fix it. Liveness depends on it. */
  restart_helps: z.boolean(),
  /** The last action of the process about it, its time, and the number of actions. */
  did: z.object({ what: text(1_024), at: z.number(), times: z.int().min(0) }).optional(),
})
export type HealthCheck = z.infer<typeof healthCheck>

/** Health of a process: the answer of `/livez` and `/readyz`, which `passover doctor` reads. */
export const healthReport = z.object({
  v: z.literal(1),
  process: text(128),
  /** False if only a restart would help. */
  live: z.boolean(),
  /** True if the process can do its work now. */
  ready: z.boolean(),
  checks: z.array(healthCheck).max(256),
})
export type HealthReport = z.infer<typeof healthReport>
