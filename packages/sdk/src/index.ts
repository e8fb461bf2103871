/**
 * @passover/sdk: what agents call. `connect()` gives an Agent; `agent.passOver()` hands work to a subagent and gives what it returned,
 * `agent.onPass()` works as one.
 *
 * Invariants, each cited or upheld where it is said:
 * I1 A handler's run begins at most once an attempt; what cannot be proved to be first is fenced (attempt/decide-attempt.ts, attempt/begin-attempt.ts).
 * I2 A return is published after this attempt's last step and nowhere else; refused or unknown, the journal is read (attempt/publish-return.ts).
 * I3 A delivery is acknowledged only when its journal is ended (handler/run-handler.ts, worker/worker-loop.ts).
 * I4 What was heard counts only under decision 3, what was read only under rule 6; else the audit is asked (delivery/pending-return.ts,
 *    journal/journal-view.ts, returns/return-waiter.ts).
 * I5 Nothing is stored for a request that fails validation at the caller (request/options.ts).
 * I6 Leases, deadlines and reads are kept by one sweep each, never by a timer a pass (worker/worker-loop.ts,
 *    returns/journal-poller.ts).
 * I7 Files change only as a person's decision took it (or the policy lets), all of a set or none, and only where they are as seen (apply/).
 * I8 Bus, clock and randomness are handed in; only agent/connect.ts makes them.
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
export { type Agent, type AgentOptions, createAgent } from './agent/agent.js'
export { connect } from './agent/connect.js'
export type { ConnectOptions } from './agent/connect-options.js'
export { apply, disconnect, onPass, passOver, passOverWithRetry, returnFromPassOver } from './agent/default-agent.js'
export { drainOnSignals } from './agent/shutdown-signals.js'
export { type ApplyOptions, loadDecision } from './apply/apply.js'
export { type Applied, applySelected, type NotApplied, planSelected } from './apply/apply-selected.js'
export { type ApplyAuthorization, applyBlockedReason, authorizeApply } from './apply/authorize.js'
export { type ApplyHome, type InterruptedSet, interruptedSets, type RecoveredSet, recoverDirectory } from './apply/journal/recover.js'
export type { ConflictVersions, Plan, PlannedChange } from './apply/plan/plan.js'
export { type Accepts, notShown, type Review, reviewable, reviewDigest, reviewReturn, showTaken } from './apply/plan/review.js'
export { appliedSets, type UndoResult, undoApplied } from './apply/undo.js'
export type { WorkerEvent } from './attempt/worker-events.js'
export type { ReturnedPass, ReturnListener } from './delivery/return-events.js'
export type { DurableReturnListener } from './durable-returns/durable-returns.js'
export { type Handler, type Pass, WorkError } from './handler/pass.js'
export { findProjectServer } from './project/find-project-server.js'
export type { FoundProject } from './project/index.js'
export type { PromptSources } from './prompts/context.js'
export { PROMPT_TEMPLATES, type PromptTemplate, readPromptTemplate, renderPrompt, templateFor } from './prompts/render.js'
export { returnMarker } from './request/history-markers.js'
export type { PassOverOptions } from './request/options.js'
export type { PassHandle } from './request/pass-handle.js'
export type { Deps } from './runtime/dependencies.js'
export { FAULT_POINTS, type FaultPoint, type Faults } from './runtime/fault-points.js'
export type { AgentDescription, Worker, WorkerOptions } from './worker/start-worker.js'
