import type { Consumption, StoreWatch } from '@passover/bus'
import { type Finding, type Health, healthy, tellReconnects, unhealthyIf, watchConnection, watchStorage } from '@passover/core'
import type { ConsumerProgress } from './intake/consumer-progress.js'
import type { LivePolicy } from './limits/live-policy.js'
import type { StorageBackpressure } from './limits/storage-backpressure.js'
import type { DispatcherDeps } from './runtime/dependencies.js'
import type { Timekeeper } from './timekeeper/timekeeper.js'

/** Parts of a dispatcher that its health checks inspect. */
export interface DispatcherParts {
  stores: StoreWatch
  policy: LivePolicy
  intake: Consumption | undefined
  timekeeper: Timekeeper | undefined
  backpressure: StorageBackpressure
  progress: ConsumerProgress
}

export function watchDispatcher(health: Health, { bus }: DispatcherDeps, parts: DispatcherParts): void {
  const { stores, policy, intake, timekeeper, backpressure, progress } = parts
  watchConnection(health, bus)
  tellReconnects(health, bus)
  health.watch('stream', 'needed', () => gone(stores.streamTrouble))
  health.watch('buckets', 'needed', () => unhealthyIf(stores.bucketTrouble))
  health.watch('policy', 'needed', () => policyFinding(policy))
  if (intake) health.watch('admission', 'needed', () => unhealthyIf(intake.trouble))
  if (timekeeper) health.watch('timekeeper', 'needed', () => unhealthyIf(timekeeper.trouble))
  watchStorage(health, bus)
  health.watch('consumers', 'needed', () => unhealthyIf(progress.trouble))
  health.watch('room', 'told', () =>
    unhealthyIf(backpressure.state === 'closed' ? 'the stream is nearly full; no requests are accepted' : undefined),
  )
}

/** Reports a lost stream as failed. A restart does not help: at best it would create a new, empty stream (decision 55). */
function gone(trouble: string | undefined): Finding {
  return trouble === undefined ? healthy() : { state: 'failed', what: trouble, restart_helps: false }
}

/** Reports an invalid policy as healthy with a note: its author has to fix it, and the last valid version stays in force. */
function policyFinding(policy: LivePolicy): Finding {
  const { trouble } = policy
  return trouble === undefined ? healthy(policy.complaint || `version ${policy.current().version} is in force`) : unhealthyIf(trouble)
}
