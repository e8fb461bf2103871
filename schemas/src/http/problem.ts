import { z } from 'zod'
import { ERROR_CODES } from '../base/errors.js'

/** Codes of problems. Errors inside the gateway itself have no code in the error table. */
export const PROBLEM_CODES = [...ERROR_CODES, 'INTERNAL'] as const

/** Every response that is not a success: RFC 9457, with the error table's code and a hint on how to fix it (docs/reference/errors.md). */
export const problem = z.object({
  /** `urn:passover:error:<code>`. */
  type: z.string(),
  /** Explanation for people who do not know the codes. */
  title: z.string(),
  status: z.int().min(400).max(599),
  code: z.enum(PROBLEM_CODES),
  detail: z.string(),
  hint: z.string().optional(),
  /** Same as the header Retry-After, but in ms. */
  retry_after_ms: z.number().min(0).optional(),
  /** All errors in the request, or in a policy. */
  errors: z.array(z.object({ path: z.string(), message: z.string() })).optional(),
  /** Details for programs, as in the error: chain, field, sizes. */
  details: z.record(z.string(), z.unknown()).optional(),
  /** The pass that ended with this error. */
  pass_id: z.string().optional(),
})
export type Problem = z.infer<typeof problem>
