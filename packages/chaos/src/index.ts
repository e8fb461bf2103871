/**
 * @passover/chaos: the guarantees under fire. Real processes and real servers, troubled by a seeded schedule; then a checker that shares
 * no code with the product says for each promise (docs/architecture/invariants.md#promises) whether it held.
 *
 * Invariants:
 * I1 The same seed and options give the same schedule: who is hurt, when, how, and what is asked for.
 * I2 The checker (check/) imports nothing of ours: a fault in the product's fold is not repeated there.
 * I3 What a machine cannot do is named as left out, never silently skipped.
 * I4 What a run leaves is judged by two that share nothing: the checker, and `passover verify`, which shares every rule with the product.
 */

export { judge } from './check/judge.js'
export { checkStream } from './check/read-stream.js'
export type { CheckerOptions, Judgement, PassFound, StoredMessage, Violation } from './check/types.js'
export { BUILDER, CHECKER, type ChildPlan, HELPER, LOAD_AGENTS, type LoadPlan, type LoadRequest, planRequest } from './load/load-plan.js'
export { plannedHandler } from './load/planned-handler.js'
export { CHAOS_DEFAULTS, type ChaosOptions, FAULTS, type FaultName } from './options.js'
export { type ChaosReport, writeReport } from './report/report.js'
export { countsText, outcomeText, PROMISE_TEXT, verdictText, verifyText } from './report/report-text.js'
export { type ChaosHooks, runChaos } from './run/chaos.js'
export { type SeededRandom, seededRandom } from './seeded-random.js'
