/** Waits after failures, and limits for giving up. Times in ms. */
interface Waits {
  first_wait_ms: number
  longest_wait_ms: number
  give_up_ms: number
  least_tries: number
}

/** Decision to wait or to give up after a receiver did not take a notice. */
export type RetryDecision = { wait_ms: number } | { give_up: true }

/**
 * Decides what to do after attempt number `tries` (from 1) for a message stored `age_ms` ago. The wait doubles each time, or is what the receiver
 * asked for if longer, up to `longest_wait_ms`. Gives up only when both time and attempts are used up, so that a notifier that was down for days
 * still tries.
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
