import type { Bus, Timing } from '@passover/bus'
import type { Clock, Tracing } from '@passover/core'
import type { Random } from '@passover/schemas'
import type { Logger } from 'pino'
import type { Faults } from './fault-points.js'

/** What the dispatcher is given: only a main constructs these. */
export interface DispatcherDeps {
  /** Connected as `passover`; the stream and its consumers exist. */
  bus: Bus
  clock: Clock
  random: Random
  log: Logger
  /** Where spans go; absent: nowhere. */
  tracing?: Tracing
  faults?: Faults
}

/** What waits in packages/bus waits by the dispatcher's clock, too. */
export function timingOf({ clock, random }: DispatcherDeps): Timing {
  return {
    wall: () => clock.now(),
    monotonic: () => clock.monotonic(),
    after: (ms, fn) => clock.after(ms, fn),
    chance: () => (random.bytes(1)[0] ?? 0) / 256,
  }
}
