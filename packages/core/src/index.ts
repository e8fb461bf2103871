/**
 * @passover/core: the rules of the protocol. Pure functions without I/O, clock or randomness; callers pass in the time and any random values.
 *
 * Invariants that the rules keep, each cited in the code that enforces it:
 * I1 The state of a journal is the fold of its steps in sequence order by `next`; every reader computes the same state.
 * I2 At most one return counts, and no step after it does. Attempt numbers only increase, by one.
 * I3 Ancestry, depth, deadline, rights and budget of a pass are read from the stored parent, never from the request.
 * I4 A child may run only while its proof names the last counted step of its parent.
 * I5 Nothing may exceed what a level above it allows, unless the policy permits that (allow_widening).
 * I6 Expected outcomes are values, not exceptions; the same input always gives the same output.
 */

export { admit, approveHeld } from './admission/admit.js'
export { type ChainInput, type ChainVerdict, chainText, firstRevoked, validateChain } from './admission/chain.js'
export { tokensOf } from './admission/check-context.js'
export type { AdmissionDecision, AdmitInput, ParentPass } from './admission/types.js'
export {
  countedDecisions,
  type DecisionRules,
  decidesOwn,
  type JudgedDecision,
  judgeDecision,
  REVOKED,
  takesPart,
} from './approval/decisions.js'
export {
  chooseModifications,
  contradictionIn,
  type ModificationChoice,
  modificationDigest,
  modificationsIn,
  type NumberedModification,
  takenModifications,
} from './approval/modifications.js'
export { type NoticedPass, noticesOf } from './approval/notifications.js'
export { approvalDeadline, awaitsApproval, pendingApproval, releaseExpiry } from './approval/pending-approval.js'
export {
  evaluateRelease,
  hasBlocker,
  hasCritical,
  hasIssue,
  mayAutoApply,
  type Release,
  releaseDenied,
  releaseExpired,
  shouldNotify,
} from './approval/release-rules.js'
export { auditRecord } from './audit/audit-record.js'
export { type AcceptedCustodyEvent, CustodyLog, type CustodyMessage, entriesOf } from './audit/custody-log.js'
export { blockedPort } from './blocked-ports.js'
export { foldCase, runsByItself } from './changes/runs-by-itself.js'
export { type FramedStep, openControl, packControl } from './codec/control-codec.js'
export { isBody, openOutput, outputIn, packOutput } from './codec/output-codec.js'
export { openPolicy, packPolicy } from './codec/policy-codec.js'
export { packSequences, sequencesIn } from './codec/sequence-list.js'
export { ERRORS, type ErrorRow, exitCode, PassOverError, passError } from './errors.js'
export { deliveredStatus, type Sent, sendStatus } from './journal/delivery-status.js'
export type { PassHistory, ReturnedBody } from './journal/pass-history.js'
export { type Delivery, passStatus } from './journal/pass-status.js'
export { requestDigest } from './journal/request-digest.js'
export { answersRequest, isExpiry, isSystemStep, requestNamed, requestTime } from './journal/request-matching.js'
export { judgeReturnByWork, mayCount, type ReturnValidity } from './journal/return-counting.js'
export {
  deadlineOf,
  EMPTY_JOURNAL,
  firstStepIsLate,
  foldJournal,
  type JournalRules,
  type JournalState,
  type Next,
  next,
} from './journal/state-machine.js'
export { type BudgetExhausted, type BudgetRequest, type ChargeResult, type Grant, Ledger } from './limits/budget-ledger.js'
export { FairSlots } from './limits/fair-slots.js'
export { type CountSource, LimitCounters, type LimitReached, type PassCounts } from './limits/limit-counters.js'
export { countToken, rootSession, type SessionName } from './limits/session-counter.js'
export type { Due, DueEnd, DueLook, DueResolution, OpenRules } from './open-passes/due-actions.js'
export { FairQueue } from './open-passes/fair-queue.js'
export type { EndReason, PendingRequest } from './open-passes/open-pass.js'
export { OpenPasses } from './open-passes/open-passes.js'
export type { OpenSnapshot } from './open-passes/snapshot.js'
export { joinSnapshotChunks } from './open-passes/snapshot-chunks.js'
export { type Timed, TimerQueue } from './open-passes/timer-queue.js'
export type { Level, ResolvedPolicy } from './policy/base-policy.js'
export { type PathSegment, type PolicyPlace, pathText, valueAt } from './policy/document-path.js'
export { type ExplainedField, type ExplainedPolicy, explainPolicy } from './policy/explain-policy.js'
export { POLICY_FIELDS, type PolicyField, type PolicyFieldName, type PolicyLevel, SYSTEM_DEFAULTS } from './policy/fields.js'
export type { KnownAgents } from './policy/lint/agent-rules.js'
export { REGISTRY } from './policy/lint/agent-rules.js'
export { checkPolicy, faultKey } from './policy/lint/lint-policy.js'
export { formatValue, type PolicyFault, type ReadPolicy, readPolicy } from './policy/parse-policy.js'
export { type PolicyInput, type PolicyVerdict, resolvePolicy } from './policy/resolve-policy.js'
export { closestMatch } from './policy/suggestions.js'
export { deadLetterResolution } from './results/dead-letter-resolution.js'
export {
  type CheckSchema,
  constraintFault,
  type OutputConstraints,
  outputConstraints,
  type SchemaVerdict,
  schemaFor,
  schemaToCheck,
  toolFault,
} from './results/output-constraints.js'
export { withPartPlaceholders } from './results/part-placeholders.js'
export { attemptsOf, planRetry, RETRY_DEFAULTS, type Retry, type RetryInput, type RetryOptions } from './results/retry-policy.js'
export { type Acceptance, acceptError, acceptReturn, completeOutput, isWorkersError, type RunFacts } from './results/validate-return.js'
export { ChurnMap } from './runtime/churn-map.js'
export type { Clock } from './runtime/clock.js'
export {
  type Finding,
  Health,
  type HealthChange,
  healthLog,
  healthy,
  joinReports,
  tellReconnects,
  unhealthyIf,
  watchConnection,
  watchStorage,
} from './runtime/health.js'
export { TokenBuckets } from './runtime/token-bucket.js'
export type { Span, SpanFacts, SpanName, SpanStart, Tracing } from './runtime/tracing.js'
export { withTimeout } from './runtime/with-timeout.js'
export {
  cut,
  cutStart,
  escapeJson,
  hiddenIn,
  logOptions,
  oneLine,
  printableJson,
  Repeats,
  shellWord,
  visible,
  visibleLines,
} from './text/index.js'
export {
  type ChangedDecision,
  type ErasedDigest,
  type FieldDifference,
  type FirstStep,
  NO_COUNTS,
  outcomeText,
  type ParsedRequest,
  RETENTION_SLACK_MS,
  type RecordedMessage,
  RemovalChecker,
  type RemovalFault,
  type RemovedSegmentEntry,
  type ReplayInput,
  type RequestReading,
  type Retention,
  RetentionHistory,
  replayDecision,
  StreamVerifier,
  VERIFY_RULES,
  type VerifyCounts,
  type VerifyFinding,
  type VerifyOptions,
  type VerifyRule,
  VersionHistory,
  type WhatIf,
  whatIf,
} from './verify/index.js'
export { SIGNATURE_HEADER, type SignedWebhook, signWebhook, verifyWebhook, type WebhookVerdict } from './webhook-signature.js'
