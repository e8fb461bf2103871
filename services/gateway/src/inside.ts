import type { Bus } from '@passover/bus'
import type { Clock } from '@passover/core'
import type { HealthReport } from '@passover/schemas'
import type { Logger } from 'pino'
import type { Acting } from './acting.js'
import type { Feeds } from './feeds.js'
import type { Metrics } from './metrics.js'
import type { GatewayOptions } from './options.js'

/** What handlers stand on. */
export interface Inside {
  /** The gateway's own connection: it reads the stream, and acts for nobody. */
  bus: Bus
  clock: Clock
  log: Logger
  options: GatewayOptions
  acting: Acting
  feeds: Feeds
  metrics: Metrics
  health(): HealthReport
  document(): string
}
