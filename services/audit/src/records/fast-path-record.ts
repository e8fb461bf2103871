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

/** A pass that consists only of a request, a work step and a worker's output, taken from its messages or from its compact record. */
export interface PlainPass {
  key: PassKey
  work: FramedStep & Pick<Step, 'sequence' | 'time'>
  returned: Pick<Step, 'sequence' | 'time' | 'digest'>
  /** Sequence and time of the request. */
  asked: { sequence: number; time: number }
  frame: ControlFrame
  /** Decoded body of the return. */
  body: Json
}

/** A plain pass with its control frame and output opened. */
interface Plain extends PlainPass {
  control: WorkControl
  output: WorkOutput
}

const SUMMARY_LENGTH = 2_000

/**
 * Builds the record of a plain pass, as nearly all passes are: exactly the record that `auditRecord` builds from the history, at an eighth of the
 * cost. Returns `undefined` if the pass turns out not to be plain. Fields are in the order of `auditRecord` so that the bytes agree (I2). They are
 * assigned one by one, because objects made by spreading are slow to create and to encode.
 */
export function plainRecord(pass: PlainPass): PassRecord | undefined {
  const plain = opened(pass)
  if (!plain) return undefined
  const { key, control, work, returned, asked, output } = plain
  // Outputs that need a person's decision are rare; the full rules handle them.
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

/** Returns the messages of a plain pass; `undefined` if the pass has more or other messages. */
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

/** True if accepting the output depends on more than the output itself: an output_schema, or rights that it may have exceeded. */
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

/** Sets a field only if it has a value, because canonical JSON and `exactOptionalPropertyTypes` distinguish absent from undefined. */
function put<T extends object, K extends keyof T>(target: T, name: K, value: T[K] | undefined): void {
  if (value !== undefined) target[name] = value
}
