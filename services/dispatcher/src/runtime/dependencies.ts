import type { Bus, Timing } from '@passover/bus'
import type { Clock, Tracing } from '@passover/core'
import type { Random } from '@passover/schemas'
import type { Logger } from 'pino'
import type { Faults } from './fault-points.js'

/** External dependencies of the dispatcher. Only entry points construct them. */
export interface DispatcherDeps {
  /** Connected as the user `passover`; the stream and its consumers exist. */
  bus: Bus
  clock: Clock
  random: Random
  log: Logger
  /** Destination of spans. If absent, no spans are recorded. */
  tracing?: Tracing
  faults?: Faults
}

/** Returns the dispatcher's clock and random source as packages/bus needs them, so that its waits use the same clock. */
export function timingOf({ clock, random }: DispatcherDeps): Timing {
  return {
    wall: () => clock.now(),
    monotonic: () => clock.monotonic(),
    after: (ms, fn) => clock.after(ms, fn),
    chance: () => (random.bytes(1)[0] ?? 0) / 256,
  }
}
