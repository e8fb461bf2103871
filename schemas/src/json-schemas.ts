import { z } from 'zod'
import { passOverAuditEntry, passRecord } from './audit/audit-record.js'
import { passError } from './base/errors.js'
import * as artifacts from './pass/artifacts.js'
import * as context from './pass/context.js'
import { passOverMetadata } from './pass/metadata.js'
import { handlerResult, workOutput } from './pass/output.js'
import { passOverRequest, requestControl } from './pass/request.js'
import { returnToContext } from './pass/return-context.js'
import { agentRecord } from './policy/agent-record.js'
import * as policy from './policy/policy.js'
import { custodyBody } from './stream/custody.js'
import { approvalNotice, returnNotice } from './stream/notifications.js'
import { policyBody, policyVersion } from './stream/policy-versions.js'
import * as wire from './stream/wire.js'

/** Structures that other programs write or read, by the name of their file in schemas/json. */
const PUBLIC = {
  'pass-over-request': passOverRequest,
  'request-control': requestControl,
  'work-context': context.workContext,
  'context-file': context.contextFile,
  'session-message': context.sessionMessage,
  'message-part': context.messagePart,
  'pass-over-marker': context.passOverMarker,
  'pass-over-return-marker': context.passOverReturnMarker,
  'tool-result': context.toolResult,
  todo: context.todo,
  'work-output': workOutput,
  'handler-result': handlerResult,
  'work-artifact': artifacts.workArtifact,
  'file-modification-artifact': artifacts.fileModificationArtifact,
  'decision-artifact': artifacts.decisionArtifact,
  'message-artifact': artifacts.messageArtifact,
  'finding-artifact': artifacts.findingArtifact,
  'tool-result-artifact': artifacts.toolResultArtifact,
  'pass-over-metadata': passOverMetadata,
  'return-to-context': returnToContext,
  'pass-over-preferences': policy.passOverPreferences,
  'agent-pair-preference': policy.agentPairPreference,
  'subagent-preference': policy.subagentPreference,
  'agent-pair-override': policy.agentPairOverride,
  'effective-policy': policy.effectivePolicy,
  budget: policy.budget,
  'policy-body': policyBody,
  'policy-version': policyVersion,
  'custody-body': custodyBody,
  'agent-record': agentRecord,
  'pass-over-audit-entry': passOverAuditEntry,
  'pass-record': passRecord,
  'pass-error': passError,
  'request-envelope': wire.requestEnvelope,
  'work-envelope': wire.workEnvelope,
  'held-envelope': wire.heldEnvelope,
  'return-envelope': wire.returnEnvelope,
  'decision-body': wire.decisionBody,
  'return-notice': returnNotice,
  'approval-notice': approvalNotice,
} as const

/** Returns the accepted input of each structure as JSON Schema 2020-12, by file name. Files refer to each other by name. */
export function jsonSchemas(): Map<string, string> {
  const registry = z.registry<{ id: string }>()
  for (const [id, schema] of Object.entries(PUBLIC)) registry.add(schema, { id })
  const { schemas } = z.toJSONSchema(registry, { io: 'input', unrepresentable: 'any', uri: (id) => `${id}.json` })
  const files = Object.entries(schemas).map(([name, schema]) => [`${name}.json`, `${JSON.stringify(schema, null, 2)}\n`] as const)
  return new Map(files.sort(([a], [b]) => (a < b ? -1 : 1)))
}
