import type { Clock } from '@passover/core'

/** How long an answer that must be of now waits for the reader. */
const MOST_LAG_MS = 4_000
const LAG_STEP_MS = 20

/** Settles when everything up to there was read; throws when that takes too long. */
export async function untilRead(
  { deps, projector }: { deps: { clock: Clock }; projector: { readonly position: number } },
  sequence: number,
): Promise<void> {
  for (let waited = 0; projector.position < sequence; waited += LAG_STEP_MS) {
    if (waited >= MOST_LAG_MS) throw new Error(`the audit has read up to ${projector.position}, not ${sequence}`)
    await new Promise<void>((done) => deps.clock.after(LAG_STEP_MS, done))
  }
}
