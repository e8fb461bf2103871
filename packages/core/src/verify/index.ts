export type { ErasedDigest } from './erasures.js'
export type { Beginning } from './judge-begin.js'
export { type Decidable, decideAgain, type GoodReading, outcomeText } from './recompute.js'
export {
  NO_COUNTS,
  type Recorded,
  type RequestReading,
  VERIFY_RULES,
  type VerifyCounts,
  type VerifyFinding,
  type VerifyRule,
} from './recorded.js'
export { type RemovalFault, Removals, type RemovedTold } from './removals.js'
export { type Retention, Retentions, SLACK_MS as RETENTION_SLACK_MS } from './retentions.js'
export { StreamVerifier, type VerifyOptions } from './stream-verifier.js'
export { Versions } from './versions.js'
export { type FieldDifference, type Otherwise, type WhatIf, whatIf } from './what-if.js'
