import type { JournalView } from '../journal/journal-view.js'

/** A first delivery of work younger than this needs no read of its journal. */
export const FRESH_MS = 2_000

/** What a worker knows of a delivery before it reads anything. Times by the server, ms. */
export interface DeliveryFacts {
  delivered: number
  /** Sequence and stored time of the work step. */
  sequence: number
  stored_at: number
  now: number
  /** When this connection was made: a killed server may have forgotten deliveries made before. */
  connected_at: number
  /** False: `now` and `connected_at` are by the local clock, or by another server's. */
  clock_measured: boolean
  /** When the consumer was made; undefined: not known. */
  consumer_created_at: number | undefined
  max_attempts: number
  /** How long the pass may last from `stored_at`, ms. */
  timeout_ms: number
  /** Of work that is younger, no step can have been deleted (rule 4). */
  id_window_ms: number
  /** Made anew for this delivery: a fence that carries it is this delivery's own. */
  nonce: string
}

export type AttemptDecision =
  /** Begin to run. `guard` is what the return expects, `proof` what a child names. */
  | { kind: 'run'; attempt: number; guard: number; proof: number }
  | { kind: 'read' }
  /** The journal is ended: acknowledge, don't run. */
  | { kind: 'ended' }
  | { kind: 'fence'; attempt: number; guard: number }
  /** Neither run nor acknowledge. */
  | { kind: 'leave'; why: 'lost' | 'not_found' | 'unclear' | 'over' }
  /** Its attempts are used up: give it back at once until the server, which counts deliveries, gives it up. */
  | { kind: 'give_back' }

/** Rule 2: the first delivery of a consumer and a connection that cannot have forgotten an earlier one. */
export function isFirst(facts: DeliveryFacts): boolean {
  const { consumer_created_at } = facts
  return (
    facts.clock_measured &&
    facts.delivered === 1 &&
    consumer_created_at !== undefined &&
    facts.stored_at > consumer_created_at &&
    facts.stored_at > facts.connected_at
  )
}

/** It may have been ended and deleted since, where a replica that lags still shows it: only the leader can say (decision 66). */
function mayBeGone(facts: DeliveryFacts): boolean {
  return facts.now - facts.stored_at >= facts.id_window_ms
}

/** Its deadline has passed by the server's clock: the timekeeper ends it, if it has not yet. */
export function isOver(facts: DeliveryFacts): boolean {
  return facts.clock_measured && facts.now >= facts.stored_at + facts.timeout_ms
}

/**
 * What to do with a delivery (rules 1, 2 and 7 of docs/architecture/invariants.md#rules). Pure.
 * Without a view: run unread if it is first and young, else read. With the view of its journal: run, fence, acknowledge or leave.
 */
export function decideAttempt(facts: DeliveryFacts, view?: JournalView): AttemptDecision {
  const first = isFirst(facts)
  if (!view) {
    if (!first || facts.now - facts.stored_at >= FRESH_MS || isOver(facts)) return { kind: 'read' }
    return { kind: 'run', attempt: 1, guard: facts.sequence, proof: facts.sequence }
  }
  if (view.ending.kind === 'return') return { kind: 'ended' }
  if (view.ending.kind === 'unclear') return { kind: 'leave', why: 'unclear' }
  if (view.work?.sequence !== facts.sequence) return { kind: 'leave', why: 'not_found' }
  if (isOver(facts)) return { kind: 'leave', why: 'over' }
  if (view.fence && view.fence.nonce === facts.nonce) {
    return { kind: 'run', attempt: view.attempt, guard: view.fence.sequence, proof: view.fence.sequence }
  }
  if (first && view.fence) return { kind: 'leave', why: 'lost' }
  if (first && !mayBeGone(facts)) return { kind: 'run', attempt: 1, guard: view.last, proof: view.valid }
  // Nobody is known to have begun, but it cannot be proved: the fence makes it the only one, whatever the number.
  const unbegun = facts.delivered === 1 && !view.fence
  const attempt = view.attempt + 1
  if (attempt > facts.max_attempts && !unbegun) return { kind: 'give_back' }
  return { kind: 'fence', attempt, guard: view.last }
}

/** Whether a process may have died of this pass: it was in another one's hands before, or an attempt at it was lost. */
export function isSuspect(facts: DeliveryFacts, view: JournalView): boolean {
  return facts.delivered > 1 || view.fence !== undefined
}
