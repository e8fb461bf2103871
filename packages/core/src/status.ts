import { type PassStatus, SYSTEM } from '@passover/schemas'
import type { JournalState } from './lifecycle.js'

/** What can happen to a pass, as its status sees it. */
export type StatusEvent = 'hold' | 'admit' | 'refuse' | 'return' | 'time_out' | 'cancel' | 'await_release' | 'expire' | 'process'

/** The transition table of DESIGN §3. What is not in it is impossible. */
const TRANSITIONS: Record<PassStatus, Partial<Record<StatusEvent, PassStatus>>> = {
  requested: { hold: 'held', admit: 'waiting_for_return', refuse: 'refused', time_out: 'timed_out', cancel: 'cancelled' },
  held: { admit: 'waiting_for_return', refuse: 'refused', time_out: 'timed_out', cancel: 'cancelled' },
  waiting_for_return: { return: 'returned', time_out: 'timed_out', cancel: 'cancelled' },
  returned: { await_release: 'awaiting_release', process: 'processed' },
  awaiting_release: { process: 'processed', expire: 'expired' },
  processed: {},
  expired: {},
  refused: {},
  timed_out: {},
  cancelled: {},
}

export type Transition = { ok: true; status: PassStatus } | { ok: false; why: string }

/** The status after an event; an impossible one is a value, not an exception. */
export function transition(from: PassStatus, event: StatusEvent): Transition {
  const status = TRANSITIONS[from][event]
  return status ? { ok: true, status } : { ok: false, why: `a pass that is ${from} cannot ${event.replace('_', ' ')}` }
}

export interface Delivery {
  /** The output waits for a person (spec 0 §4.2). */
  awaiting_release?: boolean
  /** Nobody released it in time: its originator got E013, and will never get the output. */
  expired?: boolean
  /** The originator has it. */
  processed?: boolean
}

/** The status of a pass: its journal's, and for a return how far its delivery is. */
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
