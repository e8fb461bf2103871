import { acceptReturn, awaitsApproval, evaluateRelease, type FramedStep, openControl, requestNamed, schemaFor } from '@passover/core'
import {
  type ControlFrame,
  type PassKey,
  type PassOverAuditEntry,
  type PassOverMetadata,
  type PassRecord,
  prefix,
  type Step,
  SYSTEM,
  type WorkControl,
  type WorkOutput,
} from '@passover/schemas'
import type { PassMemory } from '../pass/pass-memory.js'
import { bodyOf, outputOf } from './pass-history.js'

type Json = Record<string, unknown>

/** What the messages of a pass say of which there is nothing but request, work and a worker's output: as they came, or as its brief kept them. */
export interface PlainPass {
  key: PassKey
  work: FramedStep & Pick<Step, 'sequence' | 'time'>
  returned: Pick<Step, 'sequence' | 'time' | 'digest'>
  /** Its request: sequence and time. */
  asked: { sequence: number; time: number }
  frame: ControlFrame
  /** The return's body, decoded. */
  body: Json
}

/** The same, opened. */
interface Plain extends PlainPass {
  control: WorkControl
  output: WorkOutput
}

const SUMMARY_LENGTH = 2_000

/**
 * The record of a plain pass, as nearly all are: exactly what auditRecord makes of its history, at an eighth of the cost. Undefined: it is no
 * such pass after all. Fields stand in auditRecord's order, so that bytes agree (I2); they are assigned one by one, since objects
 * made by spreading are slow to make and to encode.
 */
export function plainRecord(pass: PlainPass): PassRecord | undefined {
  const plain = opened(pass)
  if (!plain) return undefined
  const { key, control, work, returned, asked, output } = plain
  // What a person must decide about is rare, and told by the whole rule.
  if (!evaluateRelease(output, control.policy, false).deliver || awaitsApproval(output, control.policy)) return undefined
  const record: Partial<PassRecord> = { v: 1, key, status: 'returned', attempt: 1 }
  put(record, 'session_id', control.session_id ?? undefined)
  put(record, 'reason', control.reason ?? undefined)
  put(record, 'priority', control.priority ?? undefined)
  put(record, 'digest', control.digest ?? returned.digest)
  put(record, 'policy_version', control.policy_version)
  put(record, 'chain_depth', control.chain_depth)
  put(record, 'ancestors', control.ancestors)
  put(record, 'root', control.root)
  put(record, 'parent', control.parent ?? undefined)
  put(record, 'retry_of', control.retry_of ?? undefined)
  record.requested_at = requestedAt(plain)
  record.admitted_at = work.time
  record.deadline = work.time + (work.timeout_ms ?? control.timeout_ms ?? 0)
  record.ended_at = returned.time
  const last = Math.max(asked.sequence, work.sequence, returned.sequence)
  record.sequences = { requests: [asked.sequence], work: work.sequence, return: returned.sequence, fences: [], last }
  record.entry = entryOf(plain)
  record.metadata = metadataOf(plain)
  record.decisions = []
  return record as PassRecord
}

/** Undefined: it has more messages than a plain pass, or others. */
export function plainPass({ journal, noted, key, request }: PassMemory): PlainPass | undefined {
  if (journal.state !== 'done' || !journal.work || journal.held || journal.return.by === SYSTEM || noted.length !== 2) return undefined
  const [first, second] = noted
  if (!first?.framed || !second || first.fact !== journal.work || second.fact !== journal.return) return undefined
  const named = requestNamed(journal.work)
  const body = named && bodyOf(second)
  if (!named || !body || 'error' in body) return undefined
  const asked = { sequence: named.sequence, time: named.time ?? request?.time ?? journal.work.time }
  return { key, work: journal.work, returned: journal.return, asked, frame: first.framed.frame, body }
}

function opened(pass: PlainPass): Plain | undefined {
  const { key, work, returned, asked, frame, body } = pass
  const control = openControl(frame, work)
  if (!control) return undefined
  const accepted = acceptReturn(outputOf(body, key), key)
  if (!accepted.ok || hasTerms(accepted.output, control.policy)) return undefined
  return { key, work, returned, asked, frame, body, control, output: accepted.output }
}

/** Whether more than the output itself decides if it is acceptable: an output_schema, or rights that it may have broken. */
function hasTerms(output: WorkOutput, policy: WorkControl['policy']): boolean {
  return schemaFor(output, { policy }) !== undefined || output.artifacts.some(({ type }) => type === 'tool_result')
}

function entryOf(plain: Plain): PassOverAuditEntry {
  const { key, returned, control, output } = plain
  const { started_at, completed_at } = output.metadata
  const entry: PassOverAuditEntry = {
    pass_over_id: key.id,
    session_id: control.session_id ?? '',
    timestamp: requestedAt(plain),
    originating_agent: key.originator,
    subagent: key.subagent,
    reason: control.reason ?? '',
    work_context_size_bytes: control.context_bytes ?? 0,
    expected_output_type: control.expected_output_type ?? '',
    status: output.status,
    artifacts_count: output.artifacts.length,
    files_modified_count: output.summary.files_modified ?? 0,
    issues_found_count: output.summary.issues_found ?? 0,
    returned: true,
    applied: false,
    policy_applied: `${control.policy_name} v${control.policy_version}`,
    policy_overrides: Object.assign({}, control.override),
    summary: summaryOf(output),
  }
  put(entry, 'user_id', control.user_id ?? undefined)
  put(entry, 'started_at', started_at)
  put(entry, 'completed_at', completed_at)
  if (started_at !== undefined && completed_at !== undefined) entry.duration_ms = Math.max(0, completed_at - started_at)
  entry.returned_at = returned.time
  return entry
}

function metadataOf(plain: Plain): PassOverMetadata {
  const { key, returned, control, output } = plain
  const created_at = requestedAt(plain)
  const metadata: PassOverMetadata = {
    created_at,
    pass_over_id: key.id,
    chain_depth: control.chain_depth ?? 0,
    origination_chain: (control.origination_chain ?? [{ agent_id: key.originator, timestamp: created_at, action: 'initiated' }]).concat({
      agent_id: key.subagent,
      timestamp: returned.time,
      action: 'returned',
    }),
    wall_time_ms: Math.max(0, returned.time - created_at),
    subagent_compute_ms: output.metadata.subagent_compute_ms ?? 0,
    applied: false,
  }
  put(metadata, 'started_at', output.metadata.started_at)
  put(metadata, 'completed_at', output.metadata.completed_at)
  metadata.returned_at = returned.time
  put(metadata, 'trace_id', control.trace_id ?? undefined)
  put(metadata, 'policy_name', control.policy_name)
  put(metadata, 'policy_override', control.policy_override)
  put(metadata, 'policy_version', control.policy_version)
  metadata.attempt = 1
  put(metadata, 'retry_of', control.retry_of ?? undefined)
  return metadata
}

function requestedAt({ control, asked }: Plain): number {
  return control.requested_at ?? asked.time
}

function summaryOf({ summary, completion_reason, output }: WorkOutput): string {
  const text = summary.generated_summary ?? completion_reason ?? summary.findings.join('; ')
  return prefix(text || (output ?? ''), SUMMARY_LENGTH)
}

/** Only what has a value: canonical JSON and `exactOptionalPropertyTypes` tell absent from undefined. */
function put<T extends object, K extends keyof T>(target: T, name: K, value: T[K] | undefined): void {
  if (value !== undefined) target[name] = value
}
