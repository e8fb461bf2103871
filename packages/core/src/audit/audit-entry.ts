import {
  type AuditStatus,
  type PassError,
  type PassOverAuditEntry,
  type PassOverMetadata,
  prefix,
  type RecordedDecision,
  startedBody,
  traceIdOf,
  type WorkOutput,
} from '@passover/schemas'
import type { Application } from '../approval/applied-changes.js'
import type { PassHistory } from '../journal/pass-history.js'
import { passStatus } from '../journal/pass-status.js'
import { requestTime } from '../journal/request-matching.js'
import type { JournalState } from '../journal/state-machine.js'
import { omitUndefined } from '../runtime/omit-undefined.js'

/** State of a pass, derived from all its messages. */
export interface Told {
  pass: PassHistory
  journal: JournalState
  decisions: RecordedDecision[]
  application: Application
  awaiting_release: boolean
  /** Reason why it had to be released, if it was not released in time. */
  expired?: string
  output?: WorkOutput
  error?: PassError
}

const SUMMARY_LENGTH = 2_000

/** Returns the PassOverAuditEntry of a pass that ended. */
export function auditEntry(told: Told): PassOverAuditEntry {
  const { pass, output } = told
  const { control, request } = pass
  const { started_at, completed_at, ended_at } = runTimes(told)
  const { applied, applied_by } = told.application
  const artifacts = output?.artifacts ?? []
  const ran = started_at !== undefined && completed_at !== undefined
  return {
    pass_over_id: pass.key.id,
    session_id: control?.session_id ?? pass.session_id ?? '',
    timestamp: requestedAt(told),
    originating_agent: pass.key.originator,
    subagent: pass.key.subagent,
    reason: control?.reason ?? request?.reason ?? '',
    work_context_size_bytes: control?.context_bytes ?? pass.context_bytes ?? 0,
    expected_output_type: control?.expected_output_type ?? request?.expected_output_type ?? '',
    status: auditStatus(told),
    artifacts_count: artifacts.length,
    files_modified_count: output?.summary.files_modified ?? 0,
    issues_found_count: output?.summary.issues_found ?? 0,
    returned: output !== undefined,
    applied,
    policy_applied: control ? `${control.policy_name} v${control.policy_version}` : '',
    policy_overrides: overridesOf(pass),
    summary: summaryOf(told),
    ...omitUndefined({
      user_id: control?.user_id ?? request?.user_id,
      started_at,
      completed_at,
      duration_ms: ran ? Math.max(0, completed_at - started_at) : undefined,
      returned_at: output ? ended_at : undefined,
      applied_by,
    }),
  }
}

/** Returns the PassOverMetadata. Chain, policy and wall time come from the stream; only the worker's own times come from the worker. */
export function metadataOf(told: Told): PassOverMetadata {
  const { pass, journal, output } = told
  const { control, request } = pass
  const created_at = requestedAt(told)
  const { started_at, completed_at, ended_at } = runTimes(told)
  const { application } = told
  const initiated = {
    agent_id: pass.key.originator,
    timestamp: created_at,
    action: request?.parent ? ('delegated' as const) : ('initiated' as const),
  }
  const chain = control?.origination_chain ?? [initiated]
  const returned = output ? [{ agent_id: pass.key.subagent, timestamp: ended_at ?? created_at, action: 'returned' as const }] : []
  return {
    created_at,
    pass_over_id: pass.key.id,
    chain_depth: control?.chain_depth ?? 0,
    origination_chain: [...chain, ...returned],
    wall_time_ms: Math.max(0, (ended_at ?? created_at) - created_at),
    subagent_compute_ms: output?.metadata.subagent_compute_ms ?? 0,
    applied: application.applied,
    ...omitUndefined({
      started_at,
      completed_at,
      returned_at: output ? ended_at : undefined,
      trace_id: control ? control.trace_id : (traceIdOf(pass.steps[0]?.traceparent) ?? request?.trace_id),
      policy_name: control?.policy_name,
      policy_override: control?.policy_override,
      policy_version: control?.policy_version,
      attempt: 'attempt' in journal ? journal.attempt : undefined,
      retry_of: control?.retry_of ?? request?.retry_of,
      applied_at: application.applied_at,
      applied_by: application.applied_by,
    }),
  }
}

/** Returns the status of the output, or how the pass ended if there is no output. */
function auditStatus({ journal, output }: Told): AuditStatus {
  if (output) return output.status
  const status = passStatus(journal)
  return status === 'timed_out' || status === 'cancelled' || status === 'refused' ? status : 'failed'
}

function requestedAt({ pass, journal }: Told): number {
  const first = 'return' in journal ? requestTime(journal.return) : undefined
  return pass.control?.requested_at ?? first ?? pass.requests[0]?.time ?? pass.steps[0]?.time ?? 0
}

function runTimes({ pass, journal, output }: Told): {
  started_at?: number | undefined
  completed_at?: number | undefined
  ended_at?: number | undefined
} {
  const started = pass.events.filter(({ kind }) => kind === 'started').at(-1)
  // Parsed only if the event exists: a failing parse costs more than the rest of the record, and most passes have no such event.
  const body = started && startedBody.safeParse(started.body)
  return {
    started_at: output?.metadata.started_at ?? (body?.success ? body.data.started_at : started?.time),
    completed_at: output?.metadata.completed_at,
    ended_at: journal.state === 'done' ? journal.return.time : undefined,
  }
}

/** Returns the request's own and inline overrides; inline ones take precedence. The control frame, if present, contains them all. */
function overridesOf({ control, request }: PassHistory): Record<string, unknown> {
  if (control?.override) return control.override
  const own = omitUndefined({ timeout_ms: request?.timeout_ms, auto_apply: request?.auto_apply_on_success })
  return { ...own, ...request?.override }
}

function summaryOf({ output, error }: Told): string {
  if (error) return prefix(`${error.code}: ${error.message}`, SUMMARY_LENGTH)
  if (!output) return ''
  const { summary } = output
  const text = summary.generated_summary ?? output.completion_reason ?? summary.findings.join('; ')
  return prefix(text || (output.output ?? ''), SUMMARY_LENGTH)
}
