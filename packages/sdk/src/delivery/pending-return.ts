import type { LiveSubscription } from '@passover/bus'
import type { PassOverError } from '@passover/core'
import { idTime, journalFilter, type PassKey, type Step, SYSTEM, type WorkOutput } from '@passover/schemas'
import type { IdWindow } from '../journal/id-window.js'
import type { PublishedRequest } from '../journal/poll.js'

/** How a pass ended for its caller. */
export type ReturnOutcome = { ok: true; output: WorkOutput } | { ok: false; error: PassOverError }

/** A pass whose return is waited for. */
export interface PendingReturn {
  readonly key: PassKey
  /** Of our own request, where the id was given: the journal may be another request's. */
  readonly digest: string | undefined
  /**
   * Which unbroken time of hearing its request was published in; undefined: what is heard is never believed unread, because its id was
   * given, or something came that a plain pass has not (a held step, a fence, a return that was not believed).
   */
  epoch: number | undefined
  /** Monotonic ms of the next read of its journal. */
  nextPollAt: number
  /** Server ms after which it is not waited for any longer. */
  give_up_at: number
  /** Monotonic ms since when that is past and its journal was not read to say so. */
  overdue_since: number | undefined
  /** Sequence and time (server ms) of the stored request; undefined for a pass that another call asked for. */
  published: PublishedRequest | undefined
  /** Whether its journal was last seen held for a person, who may take as long as they like. */
  held: boolean
  /** How often its journal was read. */
  pollCount: number
  polling: boolean
  finished: boolean
  /** Its own subscription, where its id was given. */
  subscription: LiveSubscription | undefined
  /** Sequence and stored time of its return, once that is being delivered. */
  returned: number
  returned_at: number
  /** Where it stands in its trace, if its request was traced here. */
  traceparent: string | undefined
  /** What it settles with is acknowledged by who waits, later than that. */
  readonly quiet: boolean
  /** Listeners are told of its return. */
  readonly noticed: boolean
  readonly settle: (outcome: ReturnOutcome) => void
}

/**
 * Whether a return that was heard counts without a read (decision 3). Its subscription was unbroken since before the request
 * was published, so that no held step, fence or earlier return can have been missed; then an attempt 1 whose guard the server checked
 * follows a step that can only be the work. The system's counts where it cannot be a first step that was stored after its id had expired.
 */
export function isBelievable(
  awaited: PendingReturn,
  step: Pick<Step, 'by' | 'attempt' | 'guard' | 'time'>,
  now: { epoch: number; clustered: boolean } & IdWindow,
): boolean {
  if (now.clustered || awaited.epoch === undefined || awaited.epoch !== now.epoch || awaited.digest !== undefined) return false
  if (step.by === SYSTEM) return step.time - (idTime(awaited.key.id) ?? step.time) <= now.id_window_ms
  return step.attempt === 1 && (step.guard?.sequence ?? 0) > 0 && step.guard?.subject === journalFilter(awaited.key)
}
