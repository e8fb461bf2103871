import type { LiveSubscription } from '@passover/bus'
import { firstStepIsLate, type PassOverError } from '@passover/core'
import { journalFilter, type PassKey, type Step, SYSTEM, type WorkOutput } from '@passover/schemas'
import type { IdWindow } from '../journal/id-window.js'
import type { PublishedRequest } from '../journal/poll.js'

/** Result of a pass, as its caller receives it. */
export type ReturnOutcome = { ok: true; output: WorkOutput } | { ok: false; error: PassOverError }

/** An awaited pass. */
export interface PendingReturn {
  readonly key: PassKey
  /** Digest of this request, set if the caller gave the id: the journal may belong to another request. */
  readonly digest: string | undefined
  /**
   * Number of the uninterrupted subscription period in which the request was published. `undefined` if a received return must always be confirmed by
   * reading the journal: because the caller gave the id, or because a message arrived that a plain pass does not have (a held step, a fence, a return
   * that was not believed).
   */
  epoch: number | undefined
  /** Time of the next read of the journal, in monotonic ms. */
  nextPollAt: number
  /** Time at which waiting ends, in monotonic ms: the server's time may not be known when the wait begins, and is corrected later. */
  give_up_at: number
  /** Time in monotonic ms since which `give_up_at` has passed without a successful read of the journal. */
  overdue_since: number | undefined
  /** Sequence and time (server ms) of the stored request. `undefined` for a pass that another call requested. */
  published: PublishedRequest | undefined
  /** True if its journal had a step. If the journal is empty later, the pass ended and was deleted. */
  begun: boolean
  /** Number of reads of the journal. */
  pollCount: number
  polling: boolean
  finished: boolean
  /** Subscription to the return of this id only, if the caller gave the id. */
  subscription: LiveSubscription | undefined
  /** Sequence and stored time (server ms) of the return, once it is being delivered. */
  returned: number
  returned_at: number
  /** Traceparent of the request, if it was traced here. */
  traceparent: string | undefined
  /** True if the waiting code acknowledges the return itself, after it is settled. */
  readonly skip_ack: boolean
  /** True if listeners receive the return. */
  readonly emit_event: boolean
  readonly settle: (outcome: ReturnOutcome) => void
}

/**
 * Returns true if a return that arrived on the subscription counts without reading the journal (decision 3). The subscription must have been
 * uninterrupted since before the request was published, so that no held step, fence or earlier return can have been missed. Then a return of attempt
 * 1 whose guard the server checked can only follow the work step. A return of the system counts unless it may be a first step that was stored after
 * its id had expired.
 */
export function isBelievable(
  pending: PendingReturn,
  step: Pick<Step, 'by' | 'attempt' | 'guard' | 'time'>,
  now: { epoch: number; clustered: boolean } & IdWindow,
): boolean {
  if (now.clustered || pending.epoch === undefined || pending.epoch !== now.epoch || pending.digest !== undefined) return false
  if (step.by === SYSTEM) return !firstStepIsLate({ key: pending.key, time: step.time }, now)
  return step.attempt === 1 && (step.guard?.sequence ?? 0) > 0 && step.guard?.subject === journalFilter(pending.key)
}
