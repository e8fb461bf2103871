/**
 * The dispatcher: admits, holds or refuses every request, and ends what nobody else ends.
 *
 * Invariants (the code cites them):
 * I1  A journal is begun only by a first step that expects none; whoever loses reads the leader and decides anew (P1).
 * I2  A request is acknowledged only when its journal is begun, a decision only when its pass is no longer held (rule 7).
 * I3  Whatever is stored as a request ends: as work, held, a refusal, or `bad-<sequence>` with its bytes kept. Nothing
 *     that was stored stops or stalls a dispatcher.
 * I4  Every pass gets its terminal return: the timekeeper publishes it after the last step that the leader has (P2), and
 *     never for a journal that was closed and deleted.
 * I5  Work that the server gave up, and a request that died, end with a dead letter and a return.
 * I6  A held pass is dispatched only by the first decision that core's `judgeDecision` counts: of a person who may decide
 *     (no registered agent, no party of the pass), about its digest. A stored one is acted on, whatever the durable gave up.
 * I7  No agent holds anything up by what it stores: what is read of a journal is bounded, and a return that its subagent's
 *     steps outrun is guarded on what only the system writes.
 * I8  Ancestry, deadline and rights come from the parent as the leader has it, never from the request (P3, P5).
 * I9  A backlog of one pair holds up no other: what waits behind it is admitted out of turn, under the same guard (I1).
 *
 * It is stateless but for the timekeeper's fold, which is rebuilt from the stream: any number of replicas may run.
 */

export { type Running, startDispatcher } from './dispatcher.js'
export { type ParseResult, type Parties, parseRequest } from './messages/parse-request.js'
export { dispatcherMetrics } from './metrics.js'
export { runDispatcher } from './process.js'
export type { DispatcherDeps } from './runtime/dependencies.js'
export { FAULT_POINTS, type FaultPoint, type Faults } from './runtime/fault-points.js'
export { type DispatcherOptions, type DispatcherSettings, dispatcherOptions } from './runtime/options.js'
export type { Stats } from './runtime/stats.js'
