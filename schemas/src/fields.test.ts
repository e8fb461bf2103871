import { describe, expect, it } from 'vitest'
import type { z } from 'zod'
import * as s from './index.js'

/** The fields of each structure on the wire, `?` for optional. Programs of others depend on them: a change here is one of the protocol. */
const FIELDS: [structure: string, schema: z.ZodObject, fields: string][] = [
  [
    'PassOverRequest',
    s.passOverRequest,
    'id originating_agent_id subagent_id work_context reason priority? timeout_ms? return_required auto_apply_on_success? constraints? expected_output_type?',
  ],
  ['WorkContext', s.workContext, 'session_id directory files messages tool_results? todos? errors? objective background?'],
  ['files', s.contextFile, 'path content? metadata?'],
  ['messages', s.sessionMessage, 'id role agent_name? parts timestamp'],
  ['tool_results', s.toolResult, 'tool_name call_id status input output? error? timestamp'],
  ['errors', s.contextError, 'type message context?'],
  ['preservation', s.workContext, 'model? permissions? user_id? tools?'],
  [
    'WorkOutput',
    s.workOutput,
    'work_id subagent_id originating_agent_id status completion_reason? artifacts summary return_to auto_apply_allowed metadata',
  ],
  [
    'summary',
    s.workSummary.out,
    'decision? decision_reason? findings recommendations? files_modified files_reviewed issues_found time_elapsed_ms generated_summary?',
  ],
  ['FileModificationArtifact', s.fileModificationArtifact, 'type path old_content new_content reason confidence'],
  ['DecisionArtifact', s.decisionArtifact, 'type id question answer reasoning alternatives_considered?'],
  ['MessageArtifact', s.messageArtifact, 'type role content visibility'],
  ['FindingArtifact', s.findingArtifact, 'type severity category message location? suggested_fix?'],
  ['location', s.findingLocation, 'path line? column?'],
  ['ToolResultArtifact', s.toolResultArtifact, 'type tool_name call_id input output status'],
  [
    'PassOverMetadata',
    s.passOverMetadata,
    'created_at started_at? completed_at? returned_at? pass_over_id trace_id? chain_depth origination_chain policy_name? policy_override? wall_time_ms subagent_compute_ms applied applied_at? applied_by?',
  ],
  ['origination_chain', s.originationEntry, 'agent_id timestamp action'],
  [
    'MessagePart',
    s.messagePart,
    'id type text? synthetic? ignored? tool_name? call_id? tool_status? tool_input? tool_output? tool_error? file_url? file_path? file_mime? timestamp? metadata?',
  ],
  ['PassOverMarker', s.passOverMarker, 'originating_agent subagent reason'],
  ['PassOverReturnMarker', s.passOverReturnMarker, 'work_output return_to'],
  [
    'ReturnToContext',
    s.returnToContext,
    'session_id return_id originating_agent_id subagent_id pass_over_id auto_return_enabled auto_apply_enabled return_deadline? chain_depth max_chain_depth ancestors status created_at returned_at? pending_work_output? processing_errors?',
  ],
  ['PassOverPreferences', s.passOverPreferences, 'defaults? pairs? subagents? audit?'],
  ['defaults', s.policyDefaults, 'auto_return? auto_apply? timeout_ms? max_chain_depth? require_confirmation?'],
  ['audit', s.auditPreference, 'log_all_passes? log_directory? retention_days?'],
  [
    'AgentPairPreference',
    s.agentPairPreference,
    'from? to? enabled? auto_return? auto_apply? require_user_approval? pass_context? pass_files? max_context_size_bytes? timeout_ms? max_chain_depth? notify_on_return? created_at? updated_at? updated_by?',
  ],
  [
    'SubagentPreference',
    s.subagentPreference,
    'subagent_id? can_receive_passes? can_modify_files? can_run_tools? max_compute_time_ms? max_memory_mb? validate_output? output_schema?',
  ],
  [
    'PassOverAuditEntry',
    s.passOverAuditEntry,
    'pass_over_id session_id timestamp originating_agent subagent user_id? reason work_context_size_bytes expected_output_type started_at? completed_at? duration_ms? status artifacts_count files_modified_count issues_found_count returned returned_at? applied applied_by? policy_applied policy_overrides summary',
  ],
]

describe('the structures of the wire format', () => {
  it.each(FIELDS)('%s has these fields and this optionality', (_, schema, fields) => {
    const shape = schema.shape as Record<string, z.ZodType>
    const said = fields.split(' ').map((field) => {
      const name = field.replace('?', '')
      const member = shape[name]
      return member?.safeParse(undefined).success ? `${name}?` : member ? name : `${name} is missing`
    })
    expect(said.join(' ')).toBe(fields)
  })
})

/** The sets of values. */
const SETS: [field: string, schema: z.ZodType, values: string][] = [
  ['priority', s.priority, 'low medium high'],
  ['expected_output_type', s.expectedOutputType, 'decision artifacts report mixed'],
  ['WorkOutput.status', s.workStatus, 'completed failed aborted partial'],
  ['decision', s.decision, 'approved rejected needs_modification blocked'],
  ['confidence', s.confidence, 'high medium low'],
  ['answer', s.decisionArtifact.shape.answer, 'yes no unknown'],
  ['message role', s.messageArtifact.shape.role, 'assistant internal'],
  ['visibility', s.messageArtifact.shape.visibility, 'originator_only user_visible'],
  ['severity', s.severity, 'error warning info'],
  ['tool_result status', s.toolResultArtifact.shape.status, 'success error'],
  ['encoding', s.fileEncoding, 'utf8 base64'],
  ['operation', s.fileModificationArtifact.shape.operation, 'create modify delete'],
  ['action', s.originationEntry.shape.action, 'initiated delegated returned'],
  ['part type', s.messagePart.shape.type, 'text tool file reasoning'],
  ['role', s.sessionMessage.shape.role, 'user assistant'],
  ['notify_on_return', s.notifyOnReturn, 'always only_issues never'],
  ['audit status', s.auditStatus, 'completed failed aborted partial refused cancelled timed_out'],
  ['return status', s.returnToContext.shape.status, 'waiting_for_return returned timed_out cancelled processed held refused'],
  ['originates', s.originates, 'always within_a_pass never'],
]

describe('value sets', () => {
  it.each(SETS)('%s takes its words and no other', (_, schema, values) => {
    for (const value of values.split(' ')) expect(schema.safeParse(value).data).toBe(value)
    for (const value of ['bogus', '', 'Completed', 'High', null, 1, [], {}]) expect(schema.safeParse(value).success).toBe(false)
  })

  it('reads both tool statuses in both places, each keeping its own word', () => {
    expect(s.toolResultStatus.parse('running')).toBe('in_progress')
    expect(s.toolResultStatus.parse('in_progress')).toBe('in_progress')
    expect(s.toolPartStatus.parse('in_progress')).toBe('running')
    expect(s.toolPartStatus.parse('running')).toBe('running')
    for (const status of ['pending', 'completed', 'error']) {
      expect(s.toolResultStatus.parse(status)).toBe(status)
      expect(s.toolPartStatus.parse(status)).toBe(status)
    }
    expect(s.toolResultStatus.safeParse('success').success).toBe(false)
  })
})

it('has these error codes', () => {
  expect(s.ERROR_CODES.join(' ')).toBe('E001 E002 E003 E004 E005 E010 E011 E012 E013 E014 E020 E021 E022 E030 E031 E040 E041 E042 E043')
  expect(s.passError.safeParse({ code: 'E006', message: '' }).success).toBe(false)
  expect(s.passError.parse({ code: 'E013', message: 'no', details: { field: 'tools' } }).details).toEqual({ field: 'tools' })
})
