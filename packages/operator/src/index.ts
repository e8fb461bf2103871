/**
 * @passover/operator: what people do, and programs for them (the command line, the HTTP gateway): ask the audit, decide, cancel, settle
 * dead letters, change the policy. Everything takes a Bus that is connected as the person; an expected failure is a `Failure`.
 *
 * I1  A decision is stored under the person's own name, bound to the digest of what was decided, and never over another one that counts.
 * I2  What a person may not do, the server refuses: nothing here knows of rights of its own.
 */

export { type Decided, decide, type Standing } from './approvals/decide.js'
export { decideDue, refuseOwn, shownDigest } from './approvals/decide-pending.js'
export type { DueDecided } from './approvals/previous-decision.js'
export { type ShownReturn, verifyStored } from './approvals/reviewed-return.js'
export { ask, askAgents, askInbox, askList, askPasses, findPass, type ListFilter, type PassRef, severalPasses } from './audit/ask.js'
export { askCustody, type CustodySays, sayCustody } from './audit/custody.js'
export { askNames, type Names } from './audit/name-verification.js'
export { askIndex, askQuery, askStats, pages } from './audit/queries.js'
export { askLetters, everyLetter, findLetter, type LetterFilter } from './dead-letters/list.js'
export { refuseEndedParent, requeueLetter } from './dead-letters/requeue.js'
export { type Done, dropLetter, refOf } from './dead-letters/resolve.js'
export { Failure } from './errors.js'
export { type AgentLine, readAgents } from './passes/agents.js'
export { openBelow, publishCancel, untilEnded } from './passes/cancel.js'
export { type Happening, happeningOf } from './passes/describe-event.js'
export { openQueued, totalLoad } from './passes/queue-load.js'
export { type PassResult, readResult } from './passes/result.js'
export { chainOf, type KnownRevoked, marked, refuseRevoked, revokedIn, revokedText } from './passes/revoked.js'
export { isOpen, standing } from './passes/status.js'
export { noWorkersText, readPresence, waitsForWorker, workersFor, workersOf } from './passes/workers.js'
export { type FaultInFile, faultText, invalidPolicy, jsonFault } from './policy/issues.js'
export { requireCompiling, schemaFaults } from './policy/output-schema.js'
export {
  gate,
  type InForce,
  inForce,
  lenient,
  type PolicySession,
  policyOn,
  publish,
  sameDocument,
  versionOf,
  wasFaster,
} from './policy/policy.js'
