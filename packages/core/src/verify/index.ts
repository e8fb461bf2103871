export { type RemovalFault, Removals, type RemovedTold } from './retention/check-removals.js'
export { type Retention, Retentions, SLACK_MS as RETENTION_SLACK_MS } from './retention/retention-history.js'
export type { Beginning } from './rules/first-step.js'
export { type Decidable, decideAgain, type GoodReading, outcomeText } from './rules/replay-decision.js'
export type { ErasedDigest } from './state/erasures.js'
export {
  NO_COUNTS,
  type Recorded,
  type RequestReading,
  VERIFY_RULES,
  type VerifyCounts,
  type VerifyFinding,
  type VerifyRule,
} from './state/recorded-message.js'
export { Versions } from './state/version-history.js'
export { StreamVerifier, type VerifyOptions } from './stream-verifier.js'
export { type FieldDifference, type Otherwise, type WhatIf, whatIf } from './what-if.js'
