/** How long a notifier waits after failures, and when it gives up. Times in ms. */
interface Waits {
  first_wait_ms: number
  longest_wait_ms: number
  give_up_ms: number
  least_tries: number
}

/** What to do about a notice that its receiver did not take. */
export type RetryDecision = { wait_ms: number } | { give_up: true }

/**
 * After the nth try (from 1) of something stored so long ago: wait, twice as long each time, or as long as the receiver asked for;
 * given up only when both time and tries are used up, so that a notifier that was away for days tries at all.
 */
export function nextRetry(
  tries: number,
  age_ms: number,
  { asked_ms = 0, ...waits }: Waits & { asked_ms?: number | undefined },
): RetryDecision {
  if (tries >= waits.least_tries && age_ms >= waits.give_up_ms) return { give_up: true }
  const doubled = waits.first_wait_ms * 2 ** Math.min(tries - 1, 30)
  return { wait_ms: Math.min(Math.max(doubled, asked_ms), waits.longest_wait_ms) }
}
