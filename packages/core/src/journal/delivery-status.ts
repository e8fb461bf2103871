import type { PassStatus, SendStatus } from '@passover/schemas'

/** Input of {@link sendStatus}. */
export interface Sent {
  status: PassStatus
  /** True if the originator has acknowledged the return. */
  acknowledged: boolean
  /** True if the originator asked for delivery and did not acknowledge in time (E022). */
  undelivered: boolean
}

/** Returns how far delivery has come: stored, dispatched, delivered or acknowledged. An output that waits for its release has not been delivered. */
export function sendStatus({ status, acknowledged, undelivered }: Sent): SendStatus {
  if (acknowledged) return 'acknowledged'
  if (undelivered) return 'undelivered'
  if (status === 'requested' || status === 'held') return 'stored'
  return status === 'waiting_for_return' || status === 'awaiting_release' ? 'dispatched' : 'delivered'
}

/**
 * Changes `returned` to `processed` once the originator has acknowledged the return. Refused, timed-out and cancelled passes keep their status. So
 * does a pass that awaits release: its acknowledgment can be read before the expiry that it answers, and an unreleased output must never look
 * delivered.
 */
export function deliveredStatus(status: PassStatus, acknowledged: boolean): PassStatus {
  return acknowledged && status === 'returned' ? 'processed' : status
}
