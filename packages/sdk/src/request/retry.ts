import { type Clock, PassOverError, planRetry, type RetryOptions } from '@passover/core'
import { LIMITS, type WorkOutput } from '@passover/schemas'
import { z } from 'zod'
import { checkOptions } from '../errors/option-errors.js'
import { sleep } from '../runtime/dependencies.js'
import type { PassOverOptions } from './options.js'
import type { PassHandle } from './pass-handle.js'

const MAX = 1_000_000
const retryOptions = z.strictObject({
  max_retries: z.int().min(0).max(MAX).optional(),
  retry_delay_ms: z.number().min(0).max(LIMITS.timeout_ms).optional(),
  backoff_multiplier: z.number().min(0).max(MAX).optional(),
} satisfies Record<keyof RetryOptions, z.ZodType>)

/** Functions to request a pass and to await it again by its id. */
export interface RetryTarget {
  clock: Clock
  passOver: (options: PassOverOptions) => PassHandle
  handle: (id: string, subagent: string) => PassHandle
}

/**
 * Requests a pass and retries after recoverable errors: three times by default, after 1, 2 and 4 s. Each retry has a new id and the previous id in
 * `retry_of`. Attempts by workers count towards the limit. After E022, it reads the same id again. Throws the last error.
 */
export async function passOverWithRetry(
  target: RetryTarget,
  options: PassOverOptions,
  retry: Partial<RetryOptions> = {},
): Promise<WorkOutput> {
  checkOptions(retryOptions, retry, 'retry')
  let handle = target.passOver(options)
  let attempts = options.attempts_made ?? 0
  for (let retries = 0; ; retries++) {
    try {
      return await handle
    } catch (error) {
      if (!(error instanceof PassOverError)) throw error
      const plan = planRetry({ error: { code: error.code, details: error.context }, attempts_before: attempts, retries, options: retry })
      if (!plan.retry) throw error
      attempts = plan.attempts_made
      await sleep(target.clock, plan.delay_ms, options.signal)
      if (options.signal?.aborted) throw error
      handle = plan.same_id
        ? target.handle(handle.id, handle.subagent)
        : target.passOver({ ...options, id: undefined, retry_of: handle.id, attempts_made: attempts })
    }
  }
}
