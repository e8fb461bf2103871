import type { Delivery, PullEnd, WorkSource } from '@passover/bus'
import type { Slot } from '@passover/schemas'

/** A pull that waits for so long was taken. */
const ACCEPTED_AFTER_MS = 300
const GONE_CONFIRMATIONS = 2

/** One slot's work: what was asked for, and what came. */
export interface PriorityLane {
  readonly source: WorkSource
  /** Delivered, but there was no free place. */
  held: Delivery[]
  /** Asked for and not yet come. */
  outstanding: number
  pulls: number
  /** The last pull was filled: the server probably has more. */
  backlog: boolean
  /**
   * Nothing has come yet, or what came last was delivered before: one at a time is asked for. What lies here while a suspect runs is lost with it.
   * The server hands out redeliveries first, so a first delivery says that none is left.
   */
  careful: boolean
  /** No pull before this (monotonic ms). */
  not_before: number
  /** Pulls in a row that found no consumer. */
  gone: number
  /** Why its last pull got nothing, and when the pull that waits now was made (monotonic ms). */
  trouble: string | undefined
  pulled_at: number
}

export function makeLane(source: WorkSource): PriorityLane {
  return {
    source,
    held: [],
    outstanding: 0,
    pulls: 0,
    backlog: false,
    careful: true,
    not_before: 0,
    gone: 0,
    trouble: undefined,
    pulled_at: 0,
  }
}

export function hasBacklog({ backlog, pulls, not_before }: PriorityLane, now: number): boolean {
  return backlog && pulls === 0 && now >= not_before
}

/** Places that its pulls will take. A parked pull for one may find none free and is held then. */
export function reservedBy({ backlog, pulls, outstanding }: PriorityLane): number {
  return backlog || pulls === 0 ? outstanding : Math.max(0, outstanding - 1)
}

/** Why nothing can be taken from it now; a pull that waits for a while was taken by the server. */
export function troubleOf({ trouble, pulls, pulled_at }: PriorityLane, now: number): string | undefined {
  return pulls > 0 && now - pulled_at > ACCEPTED_AFTER_MS ? undefined : trouble
}

/**
 * What a pull that ended so says of the lane. One that finds no consumer proves little: just after a connection is made, the server may not
 * have its account's imports yet and answers the same. The next one, a second later, proves it.
 */
export function endTrouble(end: PullEnd, slot: Slot, gone: number): string | undefined {
  if (end === 'gone' && gone < GONE_CONFIRMATIONS) return undefined
  if (end === 'gone') return `its consumer of ${slot} work is gone; the dispatcher makes it anew`
  return end === 'failed' ? `no ${slot} work can be taken now` : undefined
}
