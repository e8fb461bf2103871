import type { Bus } from '../types/bus.js'
import type { Timing } from './timing.js'

const RETRY_DELAY_MS = 500

/**
 * Waits until the server's time is known. A service calls this before it evaluates deadlines: if it started while the server does not answer, it
 * would use the local clock and could end passes early.
 */
export async function waitForTime(bus: Bus, clock: Pick<Timing, 'after'>): Promise<void> {
  let closed = false
  void bus.closed.then(() => {
    closed = true
  })
  // On a closed connection the caller's next request throws the reason.
  while (!bus.clockKnown && !closed) {
    await bus.measureClock().catch(() => false)
    if (!bus.clockKnown) await new Promise<void>((resolve) => clock.after(RETRY_DELAY_MS, resolve))
  }
}
