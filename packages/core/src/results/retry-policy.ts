import type { ErrorCode } from '@passover/schemas'
import { isRecoverable } from '../errors.js'

/** How `passOverWithRetry` asks again. */
export interface RetryOptions {
  max_retries: number
  retry_delay_ms: number
  backoff_multiplier: number
}

export const RETRY_DEFAULTS: RetryOptions = { max_retries: 3, retry_delay_ms: 1000, backoff_multiplier: 2 }

export interface RetryInput {
  error: { code: ErrorCode; details?: Record<string, unknown> | undefined }
  /** Attempts made before the one that failed now, workers' own ones included. */
  attempts_before: number
  /** Retries made before. */
  retries: number
  options?: Partial<RetryOptions>
}

export type Retry =
  /** `same_id`: the result is stored, only its delivery failed (E022): read that id again. */
  | { retry: true; delay_ms: number; attempts_made: number; same_id: boolean }
  | { retry: false; attempts_made: number; why: 'not recoverable' | 'attempts used up' }

/** Whether and when to ask again. Only recoverable errors; at most max_retries + 1 attempts, those of an E011 included. */
export function planRetry(input: RetryInput): Retry {
  const options = { ...RETRY_DEFAULTS, ...input.options }
  const attempts_made = input.attempts_before + attemptsOf(input.error)
  if (!isRecoverable(input.error)) return { retry: false, attempts_made, why: 'not recoverable' }
  if (attempts_made > options.max_retries || input.retries >= options.max_retries) {
    return { retry: false, attempts_made, why: 'attempts used up' }
  }
  const backoff = options.retry_delay_ms * options.backoff_multiplier ** input.retries
  const delay_ms = Math.max(backoff, countOf(input.error.details?.retry_after_ms, 0))
  return { retry: true, delay_ms, attempts_made, same_id: input.error.code === 'E022' }
}

/** How many attempts an error stands for: an E011 tells how many workers tried, any other is one. */
export function attemptsOf(error: RetryInput['error']): number {
  return error.code === 'E011' ? Math.max(1, countOf(error.details?.attempts, 1)) : 1
}

function countOf(value: unknown, otherwise: number): number {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0 ? value : otherwise
}
