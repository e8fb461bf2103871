import type {
  AgentPairOverride,
  AgentRecord,
  EffectivePolicy,
  HandlerResult,
  PassOverAuditEntry,
  PassOverMarker,
  PassOverMetadata,
  PassOverRequest,
  PassOverReturnMarker,
  PassRecord,
  RequestControl,
  ReturnToContext,
  WorkArtifact,
  WorkContext,
  WorkOutput,
} from '@passover/schemas'

/** Values with every field filled, and ones with only what is required. Tests copy them before they change them. */

export const PASS_ID = '0abcdefg0mif5x2k1_V1StGXR8_Z5jdH'
const PARENT_ID = '01890a5d-ac96-774b-bcce-b302099a8057'
const HASH = 'a'.repeat(64)
const NOW = 1_764_327_600_000

export const override: Required<AgentPairOverride> = {
  auto_return: true,
  auto_review: true,
  auto_apply: false,
  require_user_approval: true,
  hold_before_dispatch: false,
  timeout_ms: 90_000,
  pass_context: true,
  pass_files: false,
  max_context_size_bytes: 1_048_576,
  notify_on_return: 'always',
  budget: { passes: 3, tokens: 10_000, time_ms: 60_000 },
}

export const fileModification: WorkArtifact = {
  type: 'file_modification',
  path: 'src/sum.ts',
  old_content: 'export const sum = (a, b) => a - b\n',
  new_content: 'export const sum = (a, b) => a + b\n',
  reason: 'sum subtracted',
  confidence: 'high',
  encoding: 'utf8',
  operation: 'modify',
}

export const artifacts: WorkArtifact[] = [
  fileModification,
  {
    type: 'decision',
    id: 'D-001',
    question: 'May this be merged?',
    answer: 'no',
    reasoning: 'DECISION: a sign is wrong',
    alternatives_considered: ['leave it'],
  },
  { type: 'message', role: 'assistant', content: 'One sign is wrong.', visibility: 'user_visible' },
  {
    type: 'finding',
    severity: 'error',
    category: 'logic_error',
    message: 'sum subtracts',
    location: { path: 'src/sum.ts', line: 1, column: 33 },
    suggested_fix: 'a + b',
  },
  {
    type: 'tool_result',
    tool_name: 'bash',
    call_id: 'call-7',
    input: { command: 'tsc', deep: [{ a: null }] },
    output: 'ok',
    status: 'success',
  },
]

export const metadata: PassOverMetadata = {
  created_at: NOW,
  started_at: NOW + 5,
  completed_at: NOW + 900,
  returned_at: NOW + 905,
  pass_over_id: PASS_ID,
  trace_id: '0af7651916cd43dd8448eb211c80319c',
  chain_depth: 1,
  origination_chain: [
    { agent_id: 'alice', timestamp: NOW, action: 'initiated' },
    { agent_id: 'audit', timestamp: NOW + 3, action: 'delegated' },
  ],
  policy_name: 'alice->audit',
  policy_override: true,
  policy_version: 4,
  attempt: 1,
  retry_of: PARENT_ID,
  wall_time_ms: 905.5,
  subagent_compute_ms: 800,
  applied: true,
  applied_at: NOW + 2_000,
  applied_by: 'maria',
}

export const output: WorkOutput = {
  work_id: PASS_ID,
  subagent_id: 'audit',
  originating_agent_id: 'alice',
  status: 'completed',
  completion_reason: 'all files were read',
  artifacts,
  summary: {
    decision: 'needs_modification',
    decision_reason: 'one error',
    findings: ['sum subtracts'],
    recommendations: ['apply the modification'],
    files_modified: 1,
    files_reviewed: 2,
    issues_found: 1,
    time_elapsed_ms: 800,
    generated_summary: 'One error in sum.ts.',
  },
  return_to: 'alice',
  auto_apply_allowed: false,
  metadata,
  output: 'One error in sum.ts.',
}

export const minimalOutput: WorkOutput = {
  work_id: PASS_ID,
  subagent_id: 'audit',
  originating_agent_id: 'alice',
  status: 'failed',
  artifacts: [],
  summary: { findings: [], files_modified: 0, files_reviewed: 0, issues_found: 0, time_elapsed_ms: 0 },
  return_to: 'alice',
  auto_apply_allowed: false,
  metadata: {
    created_at: NOW,
    pass_over_id: PASS_ID,
    chain_depth: 1,
    origination_chain: [],
    wall_time_ms: 1,
    subagent_compute_ms: 0,
    applied: false,
  },
}

export const handlerResult: Exclude<HandlerResult, string> = {
  status: 'partial',
  completion_reason: 'one file was unreadable',
  artifacts: [fileModification],
  summary: { decision: 'approved', findings: ['looks good'] },
  auto_apply_allowed: true,
  output: 'looks good',
}

export const context: WorkContext = {
  session_id: 'session-abc123',
  directory: '/home/maria/project',
  files: [
    {
      path: 'src/sum.ts',
      content: 'export const sum = (a, b) => a - b\n',
      encoding: 'utf8',
      metadata: { size_bytes: 35, last_modified: NOW, is_binary: false },
    },
    { path: 'src/large.bin', content: null },
    { path: 'README.md' },
  ],
  messages: [
    {
      id: 'm1',
      role: 'assistant',
      agent_name: 'alice',
      parts: [
        {
          id: 'p1',
          type: 'tool',
          text: 'checking',
          synthetic: false,
          ignored: false,
          tool_name: 'bash',
          call_id: 'call-1',
          tool_status: 'completed',
          tool_input: { command: 'tsc' },
          tool_output: 'error TS2322',
          tool_error: 'exit 2',
          file_url: 'file:///src/sum.ts',
          file_path: 'src/sum.ts',
          file_mime: 'text/typescript',
          timestamp: NOW,
          metadata: { reason: 'build' },
        },
      ],
      timestamp: NOW,
    },
  ],
  tool_results: [
    {
      tool_name: 'bash',
      call_id: 'call-1',
      status: 'completed',
      input: { command: 'tsc' },
      output: 'error TS2322',
      error: 'exit 2',
      timestamp: NOW,
    },
  ],
  todos: [{ id: 't1', content: 'fix the build', status: 'in_progress', priority: 'high' }],
  errors: [{ type: 'build', message: 'TS2322', context: 'src/sum.ts:1' }],
  objective: 'Review changes for correctness and style',
  background: 'The build is broken since yesterday',
  model: { provider_id: 'local', model_id: 'small' },
  permissions: { edit: 'ask', bash: { rm: 'deny' } },
  user_id: 'maria',
  tools: ['bash', 'read'],
}

export const minimalContext: WorkContext = { session_id: 's', directory: '.', files: [], messages: [], objective: 'look' }

export const control: RequestControl = {
  id: PASS_ID,
  originating_agent_id: 'alice',
  subagent_id: 'audit',
  reason: 'review_changes',
  priority: 'medium',
  timeout_ms: 30_000,
  return_required: true,
  auto_apply_on_success: false,
  constraints: ['read_only', 'no_external_calls'],
  expected_output_type: 'mixed',
  override,
  parent: { originator: 'scout', subagent: 'alice', id: PARENT_ID, return_id: 'V1StGXR8_Z5jdHi6B-myT', proof: 17 },
  retry_of: PARENT_ID,
  attempts_made: 2,
  budget: { passes: 2, tokens: 5_000, time_ms: 30_000 },
  user_id: 'maria',
  trace_id: '0af7651916cd43dd8448eb211c80319c',
}

export const minimalControl: RequestControl = {
  id: PASS_ID,
  originating_agent_id: 'alice',
  subagent_id: 'audit',
  reason: 'review_changes',
  return_required: true,
}

export const request: PassOverRequest = { ...control, work_context: context }
export const minimalRequest: PassOverRequest = { ...minimalControl, work_context: minimalContext }

export const marker: PassOverMarker = {
  type: 'pass_over',
  id: 'p2',
  originating_agent: 'alice',
  subagent: 'audit',
  reason: 'detailed_review',
  pass_over_id: PASS_ID,
  timestamp: NOW,
}

export const returnMarker: PassOverReturnMarker = {
  type: 'pass_over_return',
  id: 'p3',
  work_output: output,
  return_to: 'alice',
  pass_over_id: PASS_ID,
  timestamp: NOW,
}

export const returnContext: ReturnToContext = {
  session_id: 'session-abc123',
  return_id: 'V1StGXR8_Z5jdHi6B-myT',
  originating_agent_id: 'alice',
  subagent_id: 'audit',
  pass_over_id: PASS_ID,
  auto_return_enabled: true,
  auto_apply_enabled: false,
  return_deadline: NOW + 30_000,
  chain_depth: 2,
  max_chain_depth: 3,
  ancestors: ['scout', 'alice'],
  status: 'waiting_for_return',
  created_at: NOW,
  returned_at: NOW + 900,
  pending_work_output: output,
  processing_errors: ['could not apply'],
}

export const auditEntry: PassOverAuditEntry = {
  pass_over_id: PASS_ID,
  session_id: 'session-abc123',
  timestamp: NOW,
  originating_agent: 'alice',
  subagent: 'audit',
  user_id: 'maria',
  reason: 'review_changes',
  work_context_size_bytes: 1_234,
  expected_output_type: 'mixed',
  started_at: NOW + 5,
  completed_at: NOW + 900,
  duration_ms: 895,
  status: 'completed',
  artifacts_count: 5,
  files_modified_count: 1,
  issues_found_count: 1,
  returned: true,
  returned_at: NOW + 905,
  applied: true,
  applied_by: 'maria',
  policy_applied: 'alice->audit',
  policy_overrides: { timeout_ms: 90_000 },
  summary: 'One error in sum.ts.',
}

export const policy: EffectivePolicy = {
  enabled: true,
  reason: 'trusted',
  can_receive_passes: true,
  auto_return: false,
  auto_review: false,
  auto_apply: false,
  require_user_approval: true,
  hold_before_dispatch: false,
  approval_expires_ms: 86_400_000,
  timeout_ms: 30_000,
  max_timeout_ms: 86_400_000,
  return_deadline_ms: 86_400_000,
  max_chain_depth: 3,
  max_compute_time_ms: 30_000,
  max_memory_mb: 512,
  pass_context: true,
  pass_files: true,
  max_context_size_bytes: 5_242_880,
  notify_on_return: 'always',
  can_modify_files: false,
  can_run_tools: true,
  tools: ['bash'],
  validate_output: true,
  output_schema: { type: 'object' },
  max_attempts: 3,
  lease_ms: 5_000,
  max_passes_per_minute: 60,
  max_active: 10,
  max_passes_per_session: 1_000,
  max_held: 1_000,
  max_open: 10_000,
  budget: { passes: 10 },
  allow_widening: ['timeout_ms', 'auto_return', 'notify_on_return'],
  approvers: ['maria'],
}

export const agent: AgentRecord = {
  name: 'audit',
  roles: { originates: 'within_a_pass', subagent: true },
  description: 'reviews code',
  skills: ['typescript'],
  defaults: { output_schema: { type: 'object' }, max_attempts: 2 },
  durable_returns: { from: 17 },
  parts_bytes: 268_435_456,
  revoked_at: 1_800_000_000_000,
  registered_by: 'maria',
  updated_at: NOW,
}

const key = { originator: 'alice', subagent: 'audit', id: PASS_ID }

export const record: PassRecord = {
  v: 1,
  key,
  status: 'processed',
  session_id: 'session-abc123',
  reason: 'review_changes',
  priority: 'high',
  attempt: 2,
  digest: HASH,
  policy_version: 4,
  chain_depth: 2,
  ancestors: ['scout', 'alice'],
  root: { originator: 'scout', subagent: 'alice', id: PARENT_ID },
  parent: { originator: 'scout', subagent: 'alice', id: PARENT_ID },
  retry_of: PARENT_ID,
  requested_at: NOW,
  held_at: NOW + 1,
  admitted_at: NOW + 2,
  deadline: NOW + 30_000,
  ended_at: NOW + 900,
  sequences: { requests: [11], held: 12, work: 14, fences: [15], return: 16, late: [18], last: 18 },
  entry: auditEntry,
  metadata,
  error: { code: 'E011', message: 'the worker was lost', details: { attempts: 3 } },
  undelivered_at: NOW + 1_000,
  acknowledged_at: NOW + 2_000,
  decisions: [
    { item: 'dispatch', person: 'maria', verdict: 'approve', digest: HASH, sequence: 13, time: NOW, reason: 'fine', counts: true },
  ],
  awaits: { item: 'apply', since: NOW, expires_at: NOW + 1_000 },
  application: { at: NOW, by: 'maria', modifications: { [HASH]: 'applied' } },
  output_unchecked: 'not checked: the output_schema of scout used its 5 s of checking time within 60 s',
  settlement: { action: 'requeue', by: 'maria', time: NOW, requeued_as: 'requeue-0123456789', reason: 'mended' },
  violations: [{ sequence: 17, what: 'a second return' }],
}

export const minimalRecord: PassRecord = {
  v: 1,
  key: { ...key, id: 'bad-0000000000000017' },
  status: 'refused',
  attempt: 0,
  sequences: { requests: [17], fences: [], last: 18 },
  decisions: [],
}

/** A sample of `.opencode/pass-over.json`. */
export const configSample = `{
  "defaults": { "auto_return": false, "auto_apply": false, "timeout_ms": 30000, "max_chain_depth": 3, "require_confirmation": true },
  "pairs": {
    "alice->audit": {
      "enabled": true, "auto_return": true, "auto_apply": false, "require_user_approval": true, "pass_context": true, "pass_files": true,
      "timeout_ms": 60000, "notify_on_return": "always", "created_at": 1700000000, "updated_at": 1700000000
    },
    "alice->inspector": {
      "enabled": true, "auto_return": false, "auto_apply": false, "require_user_approval": true, "notify_on_return": "only_issues"
    },
    "scout->audit": { "enabled": false, "reason": "conflicting specializations" }
  },
  "subagents": {
    "audit": { "can_receive_passes": true, "can_modify_files": false, "can_run_tools": true, "max_compute_time_ms": 60000 },
    "inspector": { "can_receive_passes": true, "can_modify_files": false, "can_run_tools": true }
  },
  "audit": { "log_all_passes": true, "log_directory": ".opencode/pass-over-logs", "retention_days": 30 }
}`
