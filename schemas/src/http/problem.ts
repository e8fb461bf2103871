import { z } from 'zod'
import { ERROR_CODES } from '../base/errors.js'

/** What goes wrong inside the gateway itself has no code of the error table. */
export const PROBLEM_CODES = [...ERROR_CODES, 'INTERNAL'] as const

/** Every answer that is no success: RFC 9457, with the error table's code and what mends it (docs/reference/errors.md). */
export const problem = z.object({
  /** `urn:passover:error:<code>`. */
  type: z.string(),
  /** What happened, for people who do not know the codes. */
  title: z.string(),
  status: z.int().min(400).max(599),
  code: z.enum(PROBLEM_CODES),
  detail: z.string(),
  hint: z.string().optional(),
  /** As the header Retry-After, but in ms. */
  retry_after_ms: z.number().min(0).optional(),
  /** Each single thing that is wrong with the request, or with a policy. */
  errors: z.array(z.object({ path: z.string(), message: z.string() })).optional(),
  /** Facts for programs, as the error carries them: chain, field, sizes. */
  details: z.record(z.string(), z.unknown()).optional(),
  /** The pass that ended so. */
  pass_id: z.string().optional(),
})
export type Problem = z.infer<typeof problem>
