/**
 * @passover/chaos: tests the guarantees under faults. Runs real processes and real servers, injects faults by a seeded schedule, and then verifies
 * each promise (docs/architecture/invariants.md#promises) with a checker that shares no code with the product.
 *
 * Invariants:
 * I1 The same seed and options give the same schedule: targets, times and kinds of the faults, and the requests.
 * I2 The checker (check/) imports no code of the product, so that it cannot repeat a defect in the product's fold.
 * I3 Faults that the machine cannot inject are reported as left out, never silently skipped.
 * I4 Two independent verifiers judge the result of a run: the checker, and `passover verify`, which shares every rule with the product.
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
