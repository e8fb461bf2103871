import {
  type ErrorCode,
  type HandlerResult,
  issueTexts,
  type PassError,
  type PassKey,
  PROTO,
  passError as passErrorSchema,
  SYSTEM,
  type WorkArtifact,
  type WorkControl,
  type WorkOutput,
  workOutput,
} from '@passover/schemas'
import { contradictionIn } from '../approval/modifications.js'
import { isBody } from '../codec/output-codec.js'
import { passError } from '../errors.js'
import { oneLine } from '../text/index.js'
import { constraintFault, type OutputConstraints } from './output-constraints.js'

export type Acceptance = { ok: true; output: WorkOutput } | { ok: false; error: PassError }

const ISSUES_SHOWN = 10

/**
 * Checks if an output may be the return of this pass: E021 if it fails the schema or the subagent's output_schema, E013 if it names another pass or
 * recipient, or does what the pass's rights forbid. Worker, originator and audit use the same check.
 */
export function acceptReturn(output: unknown, pass: PassKey, terms: OutputConstraints = {}): Acceptance {
  const parsed = workOutput.safeParse(output)
  if (!parsed.success) {
    const base = isBody(output) ? output.unknown_base : undefined
    // A worker may send any value here; only a number is a base.
    if (typeof base === 'number')
      return { ok: false, error: passError('E021', `The return uses base ${base}, which is unknown here: it comes from a newer version`) }
    const issues = issueTexts(parsed.error.issues, ISSUES_SHOWN)
    return { ok: false, error: passError('E021', `Not a WorkOutput: ${issues.join('; ')}`, { issues }) }
  }
  const fault = identityFault(parsed.data, pass) ?? contradictionFault(parsed.data) ?? constraintFault(parsed.data, terms)
  return fault ? { ok: false, error: fault } : { ok: true, output: parsed.data }
}

/** Errors that a worker may report about its own run. Only the system may report others. */
const WORKERS_CODES: readonly ErrorCode[] = ['E010', 'E011', 'E014', 'E021']
/** Fields of an E013 that a worker may report: its own output or run violated a right or named another pass. Other E013 are the system's. */
const WORKERS_FIELDS: readonly unknown[] = [
  'tools',
  'can_run_tools',
  'can_modify_files',
  'constraints',
  'work_id',
  'subagent_id',
  'originating_agent_id',
  'return_to',
]

/** Returns true if a worker may report this error about its own run. */
export function isWorkersError({ code, details }: Pick<PassError, 'code' | 'details'>): boolean {
  return WORKERS_CODES.includes(code) || (code === 'E013' && details?.approval === undefined && WORKERS_FIELDS.includes(details?.field))
}

/**
 * Returns the error of a stored return. `ok` is true if its sender may report it; otherwise the error is an E021 in its place, because a worker can
 * send any value. Originator and audit use the same check.
 */
export function acceptError(error: unknown, by: string): { ok: boolean; error: PassError } {
  const parsed = passErrorSchema.safeParse(error)
  if (!parsed.success) return { ok: false, error: passError('E021', 'The error in the return is malformed') }
  const { code, message } = parsed.data
  if (by === SYSTEM) return { ok: true, error: parsed.data }
  if (isWorkersError(parsed.data)) return { ok: true, error: attributed(parsed.data, by) }
  return { ok: false, error: passError('E021', `A worker may not return ${code}: ${message}`) }
}

/**
 * Removes or marks what only the system may say, because details of an error are shown to people as the system's own words. Advice of a worker gets
 * the worker's name. The policy that decided is removed, because no policy decides in a worker. `output_bytes` is removed too: it means that the
 * reader did not load an output, which a worker cannot know.
 */
function attributed(error: PassError, by: string): PassError {
  if (!error.details) return error
  const { mend, policy_name: _, policy_version: __, policy_path: ___, output_bytes: ____, ...details } = error.details
  return { ...error, details: typeof mend === 'string' ? { ...details, mend: `${by} suggests: ${mend}` } : details }
}

function identityFault(output: WorkOutput, { originator, subagent, id }: PassKey): PassError | undefined {
  const expected = { work_id: id, subagent_id: subagent, originating_agent_id: originator, return_to: originator } as const
  for (const field of ['work_id', 'subagent_id', 'originating_agent_id', 'return_to'] as const) {
    if (output[field] === expected[field]) continue
    const details = { field, expected: expected[field], got: output[field] }
    return passError('E013', `The output's ${field} is ${output[field]}, not ${expected[field]}`, details)
  }
  return undefined
}

function contradictionFault({ artifacts }: WorkOutput): PassError | undefined {
  for (const [index, artifact] of artifacts.entries()) {
    if (artifact.type !== 'file_modification') continue
    const why = contradictionIn(artifact)
    if (why === undefined) continue
    const path = `artifacts.${index}`
    return passError('E021', `The output's ${path} (${oneLine(artifact.path, 200)}) contradicts itself: ${why}`, {
      field: path,
      issues: [why],
    })
  }
  return undefined
}

/** Facts that the system knows about a run. Times are server ms. */
export interface RunFacts {
  control: WorkControl
  attempt: number
  started_at: number
  completed_at: number
  /** Milliseconds that the handler itself used. If absent, the whole run is counted. */
  compute_ms?: number
  /** Number of files that were passed. They count as reviewed unless the handler says otherwise. */
  files_passed?: number
  /** True if the handler's signal was aborted before it returned. */
  aborted?: boolean
}

/** Builds the complete WorkOutput from the handler's result; adds identity, metadata, times and statistics. */
export function completeOutput(given: HandlerResult, facts: RunFacts): WorkOutput {
  const fields = typeof given === 'string' ? { output: given } : given
  const { control } = facts
  const artifacts = fields.artifacts ?? []
  const output: WorkOutput = {
    work_id: control.id,
    subagent_id: control.subagent_id,
    originating_agent_id: control.originating_agent_id,
    status: facts.aborted ? 'aborted' : (fields.status ?? 'completed'),
    artifacts,
    summary: summaryOf(fields, artifacts, facts),
    return_to: control.originating_agent_id,
    auto_apply_allowed: fields.auto_apply_allowed ?? false,
    metadata: metadataOf(facts),
  }
  return filled(output, fields)
}

/** Adds the handler's fields that the system does not set. Assigned one by one: a literal that begins with a spread costs several µs. */
function filled<T extends object>(made: T, said: object): T {
  for (const name in said) {
    const value = (said as Record<string, unknown>)[name]
    // A plain assignment would change the prototype. Defined as an own field, `__proto__` is refused by validation by name.
    if (name === PROTO) Object.defineProperty(made, name, { value, enumerable: true })
    else if (value !== undefined && !Object.hasOwn(made, name)) (made as Record<string, unknown>)[name] = value
  }
  return made
}

type Fields = Exclude<HandlerResult, string>

function summaryOf({ summary }: Pick<Fields, 'summary'>, artifacts: WorkArtifact[], facts: RunFacts): WorkOutput['summary'] {
  const said = typeof summary === 'string' ? { generated_summary: summary } : (summary ?? {})
  const found = artifacts.flatMap((artifact) => (artifact.type === 'finding' ? [artifact.message] : []))
  const modified = new Set(artifacts.flatMap((artifact) => (artifact.type === 'file_modification' ? [artifact.path] : [])))
  const findings = said.findings ?? found
  const counted: WorkOutput['summary'] = {
    files_modified: modified.size,
    files_reviewed: facts.files_passed ?? 0,
    issues_found: found.length || findings.length,
    time_elapsed_ms: elapsed(facts.started_at, facts.completed_at),
    findings,
  }
  for (const [name, value] of Object.entries(said)) {
    if (value !== undefined && name !== 'findings') (counted as Record<string, unknown>)[name] = value
  }
  return counted
}

function metadataOf(facts: RunFacts): WorkOutput['metadata'] {
  const { control, attempt, started_at, completed_at } = facts
  const { trace_id, retry_of } = control
  return {
    created_at: control.requested_at,
    started_at,
    completed_at,
    pass_over_id: control.id,
    ...(trace_id === undefined ? {} : { trace_id }),
    chain_depth: control.chain_depth,
    origination_chain: [...control.origination_chain, { agent_id: control.subagent_id, timestamp: completed_at, action: 'returned' }],
    policy_name: control.policy_name,
    policy_override: control.policy_override,
    policy_version: control.policy_version,
    attempt,
    ...(retry_of === undefined ? {} : { retry_of }),
    wall_time_ms: elapsed(control.requested_at, completed_at),
    subagent_compute_ms: facts.compute_ms ?? elapsed(started_at, completed_at),
    applied: false,
  }
}

/** Returns the difference, at least 0: the clocks of two machines may differ by more than the duration of the run. */
function elapsed(from: number, to: number): number {
  return Math.max(0, to - from)
}
