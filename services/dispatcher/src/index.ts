/**
 * The dispatcher: admits, holds or refuses every request, and ends passes that no worker ends.
 *
 * Invariants (the code cites them):
 * I1  A journal begins only with a first step that expects an empty journal. A dispatcher that loses this race reads the journal from the leader and
 *     decides again (P1).
 * I2  A request is acknowledged only after its journal has begun. A decision is acknowledged only after its pass is no longer held, or if the decision
 *     does not count (rule 7).
 * I3  Every stored request gets an outcome: work, held, a refusal, or `bad-<sequence>` with its bytes kept. No stored message can stop or stall a
 *     dispatcher.
 * I4  Every pass gets its terminal return. The timekeeper publishes it after the last step that the leader has (P2), and never for a journal that was
 *     closed and deleted.
 * I5  If the server stops delivering a work step or a request, its pass ends with a dead letter and a return.
 * I6  A held pass is dispatched only by the first decision that core's `judgeDecision` counts: made by a person who may decide (not a registered
 *     agent, not a party of the pass), about the digest of the pass. A stored decision takes effect even if the durable consumer has given it up.
 * I7  An agent cannot block anything with what it stores: the number of steps read from a journal is bounded, and if a subagent stores steps faster
 *     than the return can be guarded, the return is guarded on a subject that only the system writes.
 * I8  Parents, deadline and rights come from the parent's steps at the leader, never from the request (P3, P5).
 * I9  A backlog of one pair does not delay the others: requests behind it are admitted out of turn, under the same guard (I1).
 *
 * The dispatcher is stateless except for the timekeeper's fold, which is rebuilt from the stream, so any number of replicas may run.
 */

export { type Running, startDispatcher } from './dispatcher.js'
export { type ParseResult, type Parties, parseRequest } from './messages/parse-request.js'
export { dispatcherMetrics } from './metrics.js'
export { runDispatcher } from './process.js'
export type { DispatcherDeps } from './runtime/dependencies.js'
export { FAULT_POINTS, type FaultPoint, type Faults } from './runtime/fault-points.js'
export { type DispatcherOptions, type DispatcherSettings, dispatcherOptions } from './runtime/options.js'
export type { Stats } from './runtime/stats.js'
