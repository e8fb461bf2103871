/**
 * @passover/sdk/internal: exports that the other packages of this workspace need from the SDK. Not part of the public API: they change without notice.
 */
export { createAgent } from './agent/agent.js'
export { authorizationInput } from './apply/apply.js'
export { applySelected, type NotApplied, planSelected } from './apply/apply-selected.js'
export { type AuthorizationInput, applyBlockedReason, authorizeApply } from './apply/authorize.js'
export { type ApplyContext, type InterruptedSet, interruptedSets, type RecoveredSet, recoverDirectory } from './apply/journal/recover.js'
export type { ConflictVersions, Plan, PlannedChange } from './apply/plan/plan.js'
export { type Accepts, notShown, type Review, reviewable, reviewDigest, reviewReturn, showTaken } from './apply/plan/review.js'
export { appliedSets, type UndoResult, undoApplied } from './apply/undo.js'
export { outputBytes } from './messages/decode-return.js'
export type { PromptSources } from './prompts/context.js'
export { type PromptTemplate, readPromptTemplate, renderPrompt, templateFor } from './prompts/render.js'
export { FAULT_POINTS, type FaultPoint, type Faults } from './runtime/fault-points.js'
