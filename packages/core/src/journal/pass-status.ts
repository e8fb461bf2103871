import { type PassStatus, SYSTEM } from '@passover/schemas'
import type { JournalState } from './state-machine.js'

export interface Delivery {
  /** True if the output waits for a person's release. */
  awaiting_release?: boolean
  /** True if the output was not released in time: its originator got E013 and never gets the output. */
  expired?: boolean
  /** True if the originator has the output. */
  processed?: boolean
}

/** Returns the status of a pass (docs/architecture/protocol.md#status): the state of its journal, and for a return how far it has been delivered. */
export function passStatus(journal: JournalState, delivery: Delivery = {}): PassStatus {
  if (journal.state === 'none') return 'requested'
  if (journal.state === 'held') return 'held'
  if (journal.state === 'open') return 'waiting_for_return'
  const { by, code } = journal.return
  if (by === SYSTEM && code === 'E010') return 'timed_out'
  if (by === SYSTEM && code === 'E043') return 'cancelled'
  if (!journal.work) return 'refused'
  if (delivery.expired) return 'expired'
  if (delivery.processed) return 'processed'
  return delivery.awaiting_release ? 'awaiting_release' : 'returned'
}
