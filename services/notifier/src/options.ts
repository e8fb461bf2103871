import { blockedPort } from '@passover/core'
import { z } from 'zod'

/** Options of a notifier, validated once at the edge. All times are in milliseconds. */
export const notifierOptions = z.strictObject({
  /** Address that notices are posted to. Must not contain a password: `fetch` rejects it with an error that would put it into logs and the stream. */
  url: z
    .url({ protocol: /^https?$/ })
    .max(2_048)
    .refine((url) => !hasCredentials(url), 'must not include a user or password')
    .refine((url) => blockedPort(url) === undefined, {
      error: ({ input }) => `has a port that fetch does not connect to: ${blockedPort(String(input))}`,
    }),
  /** Secret that notices are signed with. */
  secret: z.string().min(16).max(1_024),
  /** Time after which a receiver that has not answered counts as failed. */
  timeout_ms: z.int().min(100).max(14_000).default(10_000),
  /** Wait after the first failure; it doubles with each further one. */
  first_wait_ms: z.int().min(1).default(1_000),
  /** Upper limit of the wait between two attempts. */
  longest_wait_ms: z.int().min(1).default(300_000),
  /** Age after which a notice is given up, if it was also tried `least_tries` times. */
  give_up_ms: z.int().min(1).default(86_400_000),
  /** Minimum number of attempts before a notice is given up. */
  least_tries: z.int().min(1).default(10),
  /** Maximum number of concurrent posts for returns. Held passes and decisions get a quarter of it each. */
  concurrency: z.int().min(1).max(256).default(16),
  /** Must equal the dispatchers' id window. */
  id_window_ms: z.int().min(1_000).default(3_600_000),
})
export type NotifierOptions = z.infer<typeof notifierOptions>
export type NotifierSettings = z.input<typeof notifierOptions>

function hasCredentials(text: string): boolean {
  const url = URL.canParse(text) ? new URL(text) : undefined
  return url !== undefined && (url.username !== '' || url.password !== '')
}
