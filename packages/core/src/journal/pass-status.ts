import { type PassStatus, SYSTEM } from '@passover/schemas'
import type { JournalState } from './state-machine.js'

export interface Delivery {
  /** The output waits for a person. */
  awaiting_release?: boolean
  /** Nobody released it in time: its originator got E013, and will never get the output. */
  expired?: boolean
  /** The originator has it. */
  processed?: boolean
}

/** The status of a pass (docs/architecture/protocol.md#status): its journal's, and for a return how far its delivery is. */
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
