/**
 * What the HTTP API is told and says (services/gateway, @passover/sdk/http): one schema for types, validation and the OpenAPI document.
 */
export {
  type AuditPage,
  type AuditParameters,
  auditPage,
  auditParameters,
  MAX_RETURNS,
  type PassesPage,
  passesPage,
  type ReturnsPage,
  type ReturnsParameters,
  returnsPage,
  returnsParameters,
} from './audit.js'
export { type EventsParameters, eventsParameters, type FeedEvent, feedEvent } from './events.js'
export { idPath, inMilliseconds } from './parameters.js'
export {
  type ApplyPlan,
  applyPlan,
  type CancelledPass,
  type CreatedPass,
  type CreatePass,
  cancelledPass,
  cancelPass,
  createdPass,
  createPass,
  type DecidedPass,
  type DecidePass,
  decidedPass,
  decidePass,
  type PlanParameters,
  partiesParameters,
  planParameters,
  type ShownPass,
  shownPass,
  showParameters,
} from './passes.js'
export {
  type AgentsPage,
  agentsPage,
  type DeadLettersPage,
  deadLettersPage,
  deadLettersParameters,
  type ExplainedPolicy,
  explainedPolicy,
  explainParameters,
  type InboxPage,
  inboxPage,
  inboxParameters,
  type PolicyInForce,
  type PublishedPolicy,
  policyInForce,
  publishedPolicy,
  putPolicyHeaders,
  putPolicyParameters,
  type SettledLetter,
  type ShownLetter,
  settledLetter,
  settleLetter,
  shownLetter,
} from './people.js'
export { PROBLEM_CODES, type Problem, problem } from './problem.js'
