import type { Clock } from '@passover/core'

/** How long an answer that must be of now waits for the reader. */
const TIMEOUT_MS = 4_000
const POLL_INTERVAL_MS = 20

/** Settles when everything up to there was read; throws when that takes too long. */
export async function waitForPosition(
  { deps, projector }: { deps: { clock: Clock }; projector: { readonly position: number } },
  sequence: number,
): Promise<void> {
  for (let waited = 0; projector.position < sequence; waited += POLL_INTERVAL_MS) {
    if (waited >= TIMEOUT_MS) throw new Error(`the audit has read up to ${projector.position}, not ${sequence}`)
    await new Promise<void>((done) => deps.clock.after(POLL_INTERVAL_MS, done))
  }
}
