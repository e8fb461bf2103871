export { RemovalChecker, type RemovalFault, type RemovedSegmentEntry } from './retention/removal-checker.js'
export { type Retention, RetentionHistory, SLACK_MS as RETENTION_SLACK_MS } from './retention/retention-history.js'
export type { FirstStep } from './rules/first-step.js'
export { outcomeText, type ParsedRequest, type ReplayInput, replayDecision } from './rules/replay-decision.js'
export type { ErasedDigest } from './state/erasures.js'
export {
  NO_COUNTS,
  type RecordedMessage,
  type RequestReading,
  VERIFY_RULES,
  type VerifyCounts,
  type VerifyFinding,
  type VerifyRule,
} from './state/recorded-message.js'
export { VersionHistory } from './state/version-history.js'
export { StreamVerifier, type VerifyOptions } from './stream-verifier.js'
export { type ChangedDecision, type FieldDifference, type WhatIf, whatIf } from './what-if.js'
