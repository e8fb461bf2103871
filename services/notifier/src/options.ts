import { blockedPort } from '@passover/core'
import { z } from 'zod'

/** Options of a notifier, validated once at the edge. Times in ms. */
export const notifierOptions = z.strictObject({
  /** Where notices are posted. Without a password: `fetch` takes none, and would say it in its error, which is logged and stored. */
  url: z
    .url({ protocol: /^https?$/ })
    .max(2_048)
    .refine((url) => !hasCredentials(url), 'must not include a user or password')
    .refine((url) => blockedPort(url) === undefined, {
      error: ({ input }) => `has a port that fetch does not connect to: ${blockedPort(String(input))}`,
    }),
  /** What they are signed with. */
  secret: z.string().min(16).max(1_024),
  /** A receiver that did not answer by then has failed. */
  timeout_ms: z.int().min(100).max(14_000).default(10_000),
  /** Waits after failures: twice as long each time, from the first to the longest. */
  first_wait_ms: z.int().min(1).default(1_000),
  longest_wait_ms: z.int().min(1).default(300_000),
  /** Given up after so long and at least so many tries. */
  give_up_ms: z.int().min(1).default(86_400_000),
  least_tries: z.int().min(1).default(10),
  /** Notices of returns under way; of held passes a quarter of it, and of decisions too. */
  concurrency: z.int().min(1).max(256).default(16),
  /** As the dispatchers have it. */
  id_window_ms: z.int().min(1_000).default(3_600_000),
})
export type NotifierOptions = z.infer<typeof notifierOptions>
export type NotifierSettings = z.input<typeof notifierOptions>

function hasCredentials(text: string): boolean {
  const url = URL.canParse(text) ? new URL(text) : undefined
  return url !== undefined && (url.username !== '' || url.password !== '')
}
