import type { Clock } from '@passover/core'

/** Milliseconds that a query which needs current data waits for the reader. */
const TIMEOUT_MS = 4_000
const POLL_INTERVAL_MS = 20

/** Resolves once every message up to `sequence` is read. Throws if that takes longer than 4 seconds. */
export async function waitForPosition(
  { deps, projector }: { deps: { clock: Clock }; projector: { readonly position: number } },
  sequence: number,
): Promise<void> {
  for (let waited = 0; projector.position < sequence; waited += POLL_INTERVAL_MS) {
    if (waited >= TIMEOUT_MS) throw new Error(`the audit service has read up to sequence ${projector.position}, but not ${sequence}`)
    await new Promise<void>((done) => deps.clock.after(POLL_INTERVAL_MS, done))
  }
}
