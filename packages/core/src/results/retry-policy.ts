import type { ErrorCode } from '@passover/schemas'
import { isRecoverable } from '../errors.js'

/** Backoff settings of `passOverWithRetry`. */
/** Options of `passOverWithRetry`. */
export interface RetryOptions {
  /**
   * Maximum number of retries after the first attempt.
   * @defaultValue `3`
   */
  max_retries: number
  /**
   * Delay before the first retry, in milliseconds.
   * @defaultValue `1000`
   */
  retry_delay_ms: number
  /**
   * Factor by which the delay grows with each further retry.
   * @defaultValue `2`
   */
  backoff_multiplier: number
}

export const RETRY_DEFAULTS: RetryOptions = { max_retries: 3, retry_delay_ms: 1000, backoff_multiplier: 2 }

export interface RetryInput {
  error: { code: ErrorCode; details?: Record<string, unknown> | undefined }
  /** Attempts made before the one that failed now, including those of workers. */
  attempts_before: number
  /** Retries made before. */
  retries: number
  options?: Partial<RetryOptions>
}

export type Retry =
  /** `same_id` is true if the result is stored and only its delivery failed (E022): read that id again. */
  | { retry: true; delay_ms: number; attempts_made: number; same_id: boolean }
  | { retry: false; attempts_made: number; why: 'not recoverable' | 'attempts used up' }

/** Decides if and when to retry. Only recoverable errors are retried, with at most `max_retries` + 1 attempts. The attempts that an E011 reports count too. */
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

/** Returns the number of attempts behind an error: an E011 carries the attempts of workers, any other error is one. */
export function attemptsOf(error: RetryInput['error']): number {
  return error.code === 'E011' ? Math.max(1, countOf(error.details?.attempts, 1)) : 1
}

function countOf(value: unknown, otherwise: number): number {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0 ? value : otherwise
}
