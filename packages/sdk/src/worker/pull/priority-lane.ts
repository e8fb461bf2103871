import type { Delivery, PullEnd, WorkSource } from '@passover/bus'
import type { Priority } from '@passover/schemas'

/** Milliseconds after which a waiting pull counts as accepted by the server. */
const ACCEPTED_AFTER_MS = 300
const GONE_CONFIRMATIONS = 2

/** State of the queue of one priority: outstanding pulls and deliveries that wait. */
export interface PriorityLane {
  readonly source: WorkSource
  /** Deliveries that wait for a free place. */
  held: Delivery[]
  /** Number of deliveries that were requested and have not arrived. */
  outstanding: number
  pulls: number
  /** True if the last pull was filled, so that the server probably has more work. */
  backlog: boolean
  /**
   * True if nothing has arrived yet or the last delivery was a redelivery. Then only one delivery is requested at a time: deliveries that wait here
   * while a suspect runs would be lost with it. The server sends redeliveries first, so a first delivery means that none is left.
   */
  careful: boolean
  /** Time before which no pull is made, in monotonic ms. */
  not_before: number
  /** Number of consecutive pulls that found no consumer. */
  gone: number
  /** Reason why the last pull failed, and the time at which the waiting pull was made (monotonic ms). */
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

/**
 * Returns the number of places to reserve for outstanding pulls. The first delivery of a waiting pull needs no reserved place; it waits if no place
 * is free.
 */
export function reservedBy({ backlog, pulls, outstanding }: PriorityLane): number {
  return backlog || pulls === 0 ? outstanding : Math.max(0, outstanding - 1)
}

/** Returns the reason why no work can be taken from the lane now. A pull that has waited for a while was accepted by the server and clears it. */
export function troubleOf({ trouble, pulls, pulled_at }: PriorityLane, now: number): string | undefined {
  return pulls > 0 && now - pulled_at > ACCEPTED_AFTER_MS ? undefined : trouble
}

/**
 * Returns the problem of a lane after a pull ended. A single pull that finds no consumer is not a proof: just after a connection is made, the
 * server may not have the imports of its account yet and gives the same answer. The next pull, a second later, is a proof.
 */
export function endTrouble(end: PullEnd, priority: Priority, gone: number): string | undefined {
  if (end === 'gone' && gone < GONE_CONFIRMATIONS) return undefined
  if (end === 'gone') return `its consumer of ${priority} work was deleted; the dispatcher recreates it`
  return end === 'failed' ? `no ${priority} work can be received at the moment` : undefined
}
