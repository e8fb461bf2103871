import type { JournalView } from '../journal/journal-view.js'

/** Age in milliseconds below which the first delivery of work can run without reading its journal. */
export const FRESH_MS = 2_000

/** Facts about a delivery that are known without its journal. All times are server ms. */
export interface DeliveryFacts {
  delivered: number
  /** Sequence and stored time of the work step. */
  sequence: number
  stored_at: number
  now: number
  /** Time at which this connection was made. A server that was killed may have forgotten earlier deliveries. */
  connected_at: number
  /** False if `now` and `connected_at` are local times or those of another server. */
  clock_measured: boolean
  /** Creation time of the consumer, or `undefined` if unknown. */
  consumer_created_at: number | undefined
  max_attempts: number
  /** Milliseconds from `stored_at` to the deadline of the pass. */
  timeout_ms: number
  /** Age in milliseconds below which no step of the work can have been deleted (rule 4). */
  id_window_ms: number
  /** Nonce that is unique to this delivery: a fence that carries it was written for this delivery. */
  nonce: string
}

export type AttemptDecision =
  /** Run the handler. `guard` is the sequence that the return must follow, `proof` the one that a child names. */
  | { kind: 'run'; attempt: number; guard: number; proof: number }
  | { kind: 'read' }
  /** The journal has ended: acknowledge, don't run. */
  | { kind: 'ended' }
  | { kind: 'fence'; attempt: number; guard: number }
  /** Neither run nor acknowledge. */
  | { kind: 'leave'; why: 'lost' | 'not_found' | 'unclear' | 'over' }
  /** All attempts are used up: negatively acknowledge until the server, which counts deliveries, stops redelivering. */
  | { kind: 'hand_back' }

/** Applies rule 2: returns true for the first delivery if neither consumer nor connection can have forgotten an earlier one. */
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

/** Returns true if the pass may have ended and been deleted since. A lagging replica may still show it; only the leader knows (decision 66). */
function mayBeDeleted(facts: DeliveryFacts): boolean {
  return facts.now - facts.stored_at >= facts.id_window_ms
}

/** Returns true if the deadline has passed by the server's clock. The timekeeper ends the pass if it has not yet. */
export function isPastDeadline(facts: DeliveryFacts): boolean {
  return facts.clock_measured && facts.now >= facts.stored_at + facts.timeout_ms
}

/**
 * Decides what to do with a delivery (rules 1, 2, 7 and 8 of docs/architecture/invariants.md#rules). Pure. Without a view of the journal: runs a recent
 * first delivery unread, otherwise asks for a read. With the view: run, fence, acknowledge or leave. `beginAttempt` publishes the fence.
 * It decides again after each read of the journal; only `run` without a read, and the decision inside its plan, have an effect.
 */
export function decideAttempt(facts: DeliveryFacts, view?: JournalView): AttemptDecision {
  const first = isFirst(facts)
  if (!view) {
    if (!first || facts.now - facts.stored_at >= FRESH_MS || isPastDeadline(facts)) return { kind: 'read' }
    return { kind: 'run', attempt: 1, guard: facts.sequence, proof: facts.sequence }
  }
  if (view.ending.kind === 'return') return { kind: 'ended' }
  if (view.ending.kind === 'unclear') return { kind: 'leave', why: 'unclear' }
  if (view.work?.sequence !== facts.sequence) return { kind: 'leave', why: 'not_found' }
  if (isPastDeadline(facts)) return { kind: 'leave', why: 'over' }
  if (view.fence && view.fence.nonce === facts.nonce) {
    return { kind: 'run', attempt: view.attempt, guard: view.fence.sequence, proof: view.fence.sequence }
  }
  if (first && view.fence) return { kind: 'leave', why: 'lost' }
  if (first && !mayBeDeleted(facts)) return { kind: 'run', attempt: 1, guard: view.valid, proof: view.valid }
  // No attempt is known to have begun, but that cannot be proved. The fence makes this attempt the only one, whatever its number.
  const unbegun = facts.delivered === 1 && !view.fence
  const attempt = view.attempt + 1
  if (attempt > facts.max_attempts && !unbegun) return { kind: 'hand_back' }
  // A step that does not count is no proof that every step before it was read: each exact get may be answered by another replica, and one that lags
  // hides a fence or a return. Only the guard on a step that counts makes the server refuse a fence after a hidden step.
  if (view.last !== view.valid) return { kind: 'leave', why: 'unclear' }
  return { kind: 'fence', attempt, guard: view.valid }
}

/** Returns true if the pass may have crashed a process: it was delivered before, or an attempt at it was lost. */
export function isSuspect(facts: DeliveryFacts, view: JournalView): boolean {
  return facts.delivered > 1 || view.fence !== undefined
}
