import type { PassStatus, SendStatus } from '@passover/schemas'

/** What tells how far a pass is for its originator. */
export interface Sent {
  status: PassStatus
  /** Its originator has the return. */
  acknowledged: boolean
  /** Its originator asked for delivery, and had not acknowledged in time (E022). */
  undelivered: boolean
}

/** Stored, dispatched, delivered, acknowledged. An output that waits for a person's release has not gone out. */
export function sendStatus({ status, acknowledged, undelivered }: Sent): SendStatus {
  if (acknowledged) return 'acknowledged'
  if (undelivered) return 'undelivered'
  if (status === 'requested' || status === 'held') return 'stored'
  return status === 'waiting_for_return' || status === 'awaiting_release' ? 'dispatched' : 'delivered'
}

/**
 * A pass whose return its caller has is processed; what never came to a worker, timed out or was cancelled stays what it is. So does what awaits its
 * release: an acknowledgment is heard before the expiry that it answers, and what nobody released must not read as handed out even for a moment.
 */
export function deliveredStatus(status: PassStatus, acknowledged: boolean): PassStatus {
  return acknowledged && status === 'returned' ? 'processed' : status
}
