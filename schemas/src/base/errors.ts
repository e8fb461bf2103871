import { z } from 'zod'
import { jsonRecord, text } from './bounded-types.js'
import { LIMITS } from './limits.js'

/** Error codes (docs/reference/errors.md). */
export const ERROR_CODES = [
  'E001',
  'E002',
  'E003',
  'E004',
  'E005',
  'E010',
  'E011',
  'E012',
  'E013',
  'E014',
  'E020',
  'E021',
  'E022',
  'E030',
  'E031',
  'E040',
  'E041',
  'E042',
  'E043',
] as const
export const errorCode = z.enum(ERROR_CODES)
export type ErrorCode = z.infer<typeof errorCode>

/** An error as it is sent in a return and printed with --json. */
export const passError = z.object({
  code: errorCode,
  message: text(LIMITS.page),
  /** Details for programs: chain, sizes, field, retry_after_ms, attempts, server_time … */
  details: jsonRecord.optional(),
})
export type PassError = z.infer<typeof passError>
