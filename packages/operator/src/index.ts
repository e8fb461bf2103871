/**
 * @passover/operator: operations for people, used by the command line and the HTTP gateway: query the audit service, decide, cancel, resolve dead
 * letters, change the policy. Each function takes a Bus that is connected as the person. An expected failure is a `Failure`.
 *
 * I1 A decision is stored under the person's own name, with the digest of the content that was decided. It never replaces another valid decision.
 * I2 The server enforces the permissions of people. This package has no permission rules of its own.
 */

export { type DecisionResult, decide, type StoredDecision } from './approvals/decide.js'
export { decidePending, refuseOwnDecision, shownDigest } from './approvals/decide-pending.js'
export type { DecisionReport } from './approvals/previous-decision.js'
export { type ShownReturn, verifyStored } from './approvals/reviewed-return.js'
export { ambiguousId, ask, askAgents, askInbox, askList, askPasses, findPass, type ListFilter, meantBy, type PassRef } from './audit/ask.js'
export { askCustody, type CustodyRequest, publishCustodyEvent } from './audit/custody.js'
export { askNameVerification, type NameVerification } from './audit/name-verification.js'
export { askIndex, askQuery, askRepair, askStats, queryPages } from './audit/queries.js'
export { allDeadLetters, type DeadLetterFilter, findDeadLetter, listDeadLetters } from './dead-letters/list.js'
export { refuseEndedParent, requeueDeadLetter } from './dead-letters/requeue.js'
export { deadLetterRef, dropDeadLetter, type ResolutionResult } from './dead-letters/resolve.js'
export { Failure } from './errors.js'
export { type AgentLine, readAgents } from './passes/agents.js'
export { openBelow, publishCancel, waitUntilEnded } from './passes/cancel.js'
export { describeEvent, type PassEvent } from './passes/describe-event.js'
export { openQueued, totalLoad } from './passes/queue-load.js'
export { type PassResult, readResult } from './passes/result.js'
export { chainOf, type KnownRevoked, marked, markedPass, refuseRevoked, revokedText } from './passes/revoked.js'
export { isOpen, OPEN_STATUSES, statusLabel } from './passes/status.js'
export { noWorkersText, readPresence, waitsForWorker, workersFor, workersOf } from './passes/workers.js'
export { type FileIssue, faultText, invalidPolicyError, jsonFault } from './policy/issues.js'
export { requireCompiling, schemaFaults } from './policy/output-schema.js'
export {
  type ActivePolicy,
  activePolicy,
  downgradeMissingAgents,
  openPolicySession,
  type PolicySession,
  publish,
  sameDocument,
  validateForPublish,
  versionConflict,
  versionOf,
} from './policy/policy.js'
