/**
 * @passover/sdk: what agents call. `connect()` gives an Agent; `agent.passOver()` hands work to a subagent and gives what it returned,
 * `agent.onPass()` works as one.
 *
 * Invariants, each cited or upheld where it is said:
 * I1 A handler's run begins at most once an attempt; what cannot be proved to be first is fenced (attempt.ts, begin.ts).
 * I2 A return is published after this attempt's last step and nowhere else; refused or unknown, the journal is read (give-back.ts).
 * I3 A delivery is acknowledged only when its journal is ended (execute.ts, worker-loop.ts).
 * I4 What was heard counts only under decision 3, what was read only under rule 6; else the audit is asked (awaited.ts, view.ts, returns.ts).
 * I5 Nothing is stored for a request that fails validation at the caller (options.ts).
 * I6 Leases, deadlines and reads are kept by one sweep each, never by a timer a pass (worker-loop.ts, reading.ts).
 * I7 Files change only as a person's decision took it (or the policy lets), all of a set or none, and only where they are as seen (apply/).
 * I8 Bus, clock and randomness are handed in; only connect.ts makes them.
 */
export type { Credentials } from '@passover/bus'
export { modificationDigest, PassOverError, verifyWebhook } from '@passover/core'
export type {
  AgentPairOverride,
  Budget,
  ContextFile,
  DecisionArtifact,
  ErrorCode,
  ExpectedOutputType,
  FileModificationArtifact,
  FindingArtifact,
  HandlerResult,
  MessageArtifact,
  Notice,
  ParentProof,
  PassError,
  Priority,
  SessionMessage,
  ToolResultArtifact,
  WorkArtifact,
  WorkContext,
  WorkOutput,
} from '@passover/schemas'
export { type Agent, type AgentOptions, createAgent } from './agent.js'
export { type Judged, mayApply, mayNotBeApplied } from './apply/allow.js'
export { type ApplyOptions, judge } from './apply/apply.js'
export { type Applied, applyChosen, type NotApplied, planChosen } from './apply/apply-chosen.js'
export type { Plan, Planned, Sides } from './apply/plan.js'
export { type Accepts, notShown, type Review, reviewable, reviewDigest, reviewReturn, showTaken } from './apply/review.js'
export { type ApplyHome, type Interrupted, interruptedSets, recoverDirectory, type Settled } from './apply/settle.js'
export { appliedSets, type Undone, undoApplied } from './apply/undo.js'
export { apply, disconnect, onPass, passOver, passOverWithRetry, returnFromPassOver } from './bare.js'
export { connect } from './connect.js'
export type { Deps } from './deps.js'
export { drainOnSignals } from './drain-on-signals.js'
export { FAULT_POINTS, type FaultPoint, type Faults } from './faults.js'
export type { PassHandle } from './handle.js'
export { returnMarker } from './markers.js'
export type { Describes, Worker, WorkerOptions } from './on-pass.js'
export type { PassOverOptions } from './options.js'
export { type Handler, type Pass, WorkError } from './pass.js'
export { findProjectServer } from './project.js'
export type { PromptSources } from './prompts/facts.js'
export { PROMPT_TEMPLATES, type PromptTemplate, readPromptTemplate, renderPrompt, templateFor } from './prompts/render.js'
export type { ReturnedPass, ReturnListener } from './return-notices.js'
export type { ConnectOptions } from './settings.js'
export type { FoundProject } from './trust/index.js'
export type { WaitingListener } from './waiting-returns.js'
export type { WorkerEvent } from './worker-log.js'
