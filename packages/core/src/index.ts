/**
 * @passover/core: what is right. Pure rules without I/O, clock or randomness; what they need of these is handed in.
 *
 * Invariants that the rules keep, each cited where it is upheld:
 * I1 A journal's state is the fold of its steps in sequence order by `next`, for every reader alike.
 * I2 At most one return counts; nothing that comes after it does, and attempts only go up by one.
 * I3 Ancestry, depth, deadline, rights and budget of a pass come from the stored parent, never from a claim.
 * I4 A child lives only while its proof names its parent's last counted step.
 * I5 Nothing below a level gets more than that level allows, unless the policy grants it (allow_widening).
 * I6 An expected outcome is a value; the same input gives the same output.
 */
export { packSequences, sequencesIn } from './acknowledged.js'
export { admit, approveHeld } from './admit.js'
export { tokensOf } from './admit-context.js'
export type { Admission, AdmitInput, ParentPass } from './admit-input.js'
export { answersRequest, isExpiry, isSystemStep, requestNamed, requestTime } from './answers.js'
export { awaitsApproval, awaitsOf, decidableUntil, releaseExpiry } from './awaits.js'
export { Backlog } from './backlog.js'
export { type ChainInput, type ChainVerdict, chainText, validateChain } from './chain.js'
export { foldCase, runsByItself } from './changes/runs-by-itself.js'
export type { Clock } from './clock.js'
export { type FramedStep, openControl, packControl } from './control-frame.js'
export { type Counted, countedByWork, mayCount } from './counted.js'
export { Counting, type Folded, type PassCounts, type Reached } from './counting.js'
export { Custody, type CustodyCounted, type CustodySaid, entriesOf } from './custody.js'
export { countedDecisions, type DecisionRules, decidesOwn, type JudgedDecision, judgeDecision, takesPart } from './decisions.js'
export { requestDigest } from './digest.js'
export type { Due, DueEnd, DueLook, OpenRules, Settled } from './due.js'
export { auditRecord } from './entry.js'
export { ERRORS, type ErrorRow, exitCode, PassOverError, passError } from './errors.js'
export { FairPlaces } from './fair-places.js'
export {
  type Finding,
  fine,
  Health,
  type HealthChange,
  healthLog,
  joinReports,
  tellReconnects,
  unless,
  watchConnection,
  watchStorage,
} from './health.js'
export type { PassHistory, ReturnedBody } from './history.js'
export { type Asking, type Charged, type Grant, Ledger, type UsedUp } from './ledger.js'
export { deadlineOf, firstStepIsLate, foldJournal, type JournalRules, type JournalState, type Next, NONE, next } from './lifecycle.js'
export {
  chooseModifications,
  contradictionIn,
  type ModificationChoice,
  modificationDigest,
  modificationsIn,
  type NumberedModification,
  takenModifications,
} from './modifications.js'
export { type NoticedPass, noticesOf } from './notice.js'
export { OpenPasses } from './open.js'
export type { Asked, Why } from './open-pass.js'
export { joinSlices } from './open-slices.js'
export type { OpenSnapshot } from './open-snapshot.js'
export { isBody, openOutput, outputIn, packOutput } from './output-frame.js'
export { PassingMap } from './passing-map.js'
export { type PolicyInput, type PolicyVerdict, resolvePolicy } from './policy.js'
export type { Level, ResolvedPolicy } from './policy-base.js'
export { checkPolicy, faultKey } from './policy-check.js'
export { nearest } from './policy-expected.js'
export { type ExplainedField, type ExplainedPolicy, explainPolicy } from './policy-explain.js'
export { type PolicyFault, type ReadPolicy, readPolicy, shown } from './policy-faults.js'
export { POLICY_FIELDS, type PolicyField, type PolicyFieldName, type PolicyLevel, SYSTEM_DEFAULTS } from './policy-fields.js'
export { openPolicy, packPolicy } from './policy-frame.js'
export { type PolicyPlace, pathText, type Segment, valueAt } from './policy-place.js'
export type { KnownAgents } from './policy-rules-agents.js'
export { REGISTRY } from './policy-rules-agents.js'
export { blockedPort } from './ports.js'
export {
  hasBlocker,
  hasCritical,
  hasIssue,
  mayAutoApply,
  type Release,
  releaseDenied,
  releaseExpired,
  releaseOf,
  shouldNotify,
} from './release.js'
export { attemptsOf, planRetry, RETRY_DEFAULTS, type Retry, type RetryInput, type RetryOptions } from './retry.js'
export { type Acceptance, acceptError, acceptReturn, completeOutput, isWorkersError, type RunFacts } from './return.js'
export { deliveredStatus, type Sent, sendStatus } from './send-status.js'
export { countToken, rootSession, type SessionName } from './sessions.js'
export { settlementOf } from './settlement.js'
export { withStandIns } from './stand-ins.js'
export { type Delivery, passStatus } from './status.js'
export { type CheckSchema, type SchemaVerdict, schemaFor, schemaToCheck, type Terms, termsFault, termsOf, toolFault } from './terms.js'
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
export type { Span, SpanFacts, SpanName, SpanStart, Tracing } from './trace.js'
export {
  type Beginning,
  type Decidable,
  decideAgain,
  type ErasedDigest,
  type FieldDifference,
  type GoodReading,
  NO_COUNTS,
  type Otherwise,
  outcomeText,
  RETENTION_SLACK_MS,
  type Recorded,
  type RemovalFault,
  Removals,
  type RemovedTold,
  type RequestReading,
  type Retention,
  Retentions,
  StreamVerifier,
  VERIFY_RULES,
  type VerifyCounts,
  type VerifyFinding,
  type VerifyOptions,
  type VerifyRule,
  Versions,
  type WhatIf,
  whatIf,
} from './verify/index.js'
export { SIGNATURE_HEADER, type SignedWebhook, signWebhook, verifyWebhook, type WebhookVerdict } from './webhook.js'
export { within } from './within.js'
