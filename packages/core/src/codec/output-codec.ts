import type { PassKey } from '@passover/schemas'

type Json = Record<string, unknown>

/**
 * Number of the set of values that a brief output leaves out, like a policy frame's base. Stored returns depend on it. A return without a number uses
 * this one.
 */
const BASE = 1

/**
 * Returns the output in the body of a return, restored if it is brief. A JSON worker may send the bare output. If the base is unknown, returns an
 * invalid output that names the base.
 */
export function outputIn(body: Json, key: PassKey): Json {
  if (!('v' in body)) return body
  if (isBody(body.brief)) return body.base === undefined || body.base === BASE ? openOutput(body.brief, key) : { unknown_base: body.base }
  return isBody(body.output) ? body.output : body
}

/**
 * Packs an output for a return (decision 39): leaves out what subject, headers and the rest of it imply, which is most of what the system filled in.
 * `undefined` if the output lacks any of these fields; it is then sent completely. Artifacts stored as parts are references here.
 */
export function packOutput(output: Json, key: PassKey): Json | undefined {
  const { metadata, summary } = output
  if (!isBody(metadata) || !isBody(summary)) return undefined
  const frame = left(output, OUTPUT, (name) => isOutputImplied(name, output, key))
  const told = left(metadata, METADATA, (name) => isMetadataImplied(name, metadata, key))
  const counted = left(summary, SUMMARY, (name) => isSummaryImplied(name, summary, metadata))
  if (!frame || !told || !counted) return undefined
  frame.metadata = told
  if (Object.keys(counted).length > 0) frame.summary = counted
  return frame
}

/** Restores the complete output. An invalid frame gives an invalid output. */
export function openOutput(frame: Json, key: PassKey): Json {
  const metadata = isBody(frame.metadata) ? frame.metadata : {}
  const output = filled(impliedOutput(key), frame)
  output.metadata = filled(impliedMetadata(metadata, key), metadata)
  output.summary = isBody(frame.summary) || frame.summary === undefined ? filled(impliedSummary(metadata), frame.summary) : frame.summary
  return output
}

/** Fields that must be present before they can be left out. */
const NOBODY = { originator: '', subagent: '', id: '' }
const OUTPUT = Object.keys(impliedOutput(NOBODY))
const SUMMARY = Object.keys(impliedSummary({}))
const METADATA = Object.keys(impliedMetadata({}, NOBODY))

function impliedOutput({ originator, subagent, id }: PassKey): Json {
  return {
    work_id: id,
    subagent_id: subagent,
    originating_agent_id: originator,
    status: 'completed',
    artifacts: [],
    summary: undefined,
    return_to: originator,
    auto_apply_allowed: false,
    metadata: undefined,
  }
}

function impliedSummary({ started_at, completed_at }: Json): Json {
  return { files_modified: 0, files_reviewed: 0, issues_found: 0, time_elapsed_ms: elapsed(started_at, completed_at), findings: [] }
}

/** Returns the implied metadata. The times cannot be implied. */
function impliedMetadata({ created_at, started_at, completed_at }: Json, { originator, subagent, id }: PassKey): Json {
  return {
    created_at: undefined,
    started_at: undefined,
    completed_at: undefined,
    pass_over_id: id,
    chain_depth: 1,
    origination_chain: [
      { agent_id: originator, timestamp: created_at, action: 'initiated' },
      { agent_id: subagent, timestamp: completed_at, action: 'returned' },
    ],
    policy_name: 'system',
    policy_override: false,
    policy_version: 0,
    attempt: 1,
    wall_time_ms: elapsed(created_at, completed_at),
    subagent_compute_ms: elapsed(started_at, completed_at),
    applied: false,
  }
}

/** Computes the elapsed time like `completeOutput`. */
function elapsed(from: unknown, to: unknown): number {
  return typeof from === 'number' && typeof to === 'number' ? Math.max(0, to - from) : 0
}

/** Returns the fields that are not implied, or `undefined` if a field is missing that opening would fill in. */
function left(said: Json, filled_in: readonly string[], isImplied: (name: string) => boolean): Json | undefined {
  for (const name of filled_in) if (said[name] === undefined) return undefined
  const rest: Json = {}
  for (const name in said) {
    const value = said[name]
    if (value !== undefined && !isImplied(name)) rest[name] = value
  }
  return rest
}

/** Returns true if a field has the value of `impliedOutput`. Called for every pass: building the whole implied output would take 3 µs. */
function isOutputImplied(name: string, output: Json, { originator, subagent, id }: PassKey): boolean {
  const value = output[name]
  switch (name) {
    case 'work_id':
      return value === id
    case 'subagent_id':
      return value === subagent
    case 'originating_agent_id':
    case 'return_to':
      return value === originator
    case 'status':
      return value === 'completed'
    case 'artifacts':
      return isNone(value)
    case 'auto_apply_allowed':
      return value === false
    // Added in brief form.
    case 'summary':
    case 'metadata':
      return true
    default:
      return false
  }
}

/** Returns true if a field has the value of `impliedSummary`. */
function isSummaryImplied(name: string, summary: Json, { started_at, completed_at }: Json): boolean {
  const value = summary[name]
  switch (name) {
    case 'files_modified':
    case 'files_reviewed':
    case 'issues_found':
      return value === 0
    case 'time_elapsed_ms':
      return value === elapsed(started_at, completed_at)
    case 'findings':
      return isNone(value)
    default:
      return false
  }
}

/** Returns true if a field has the value of `impliedMetadata`. */
function isMetadataImplied(name: string, metadata: Json, key: PassKey): boolean {
  const value = metadata[name]
  const { created_at, started_at, completed_at } = metadata
  switch (name) {
    case 'pass_over_id':
      return value === key.id
    case 'chain_depth':
    case 'attempt':
      return value === 1
    case 'origination_chain':
      return isPlainChain(value, metadata, key)
    case 'policy_name':
      return value === 'system'
    case 'policy_override':
    case 'applied':
      return value === false
    case 'policy_version':
      return value === 0
    case 'wall_time_ms':
      return value === elapsed(created_at, completed_at)
    case 'subagent_compute_ms':
      return value === elapsed(started_at, completed_at)
    default:
      return false
  }
}

function isPlainChain(chain: unknown, { created_at, completed_at }: Json, { originator, subagent }: PassKey): boolean {
  if (!Array.isArray(chain) || chain.length !== 2) return false
  return isLink(chain[0], [originator, created_at, 'initiated']) && isLink(chain[1], [subagent, completed_at, 'returned'])
}

function isLink(value: unknown, [agent_id, timestamp, action]: [string, unknown, string]): boolean {
  if (!isBody(value) || value.agent_id !== agent_id || value.timestamp !== timestamp || value.action !== action) return false
  let fields = 0
  for (const _ in value) fields++
  return fields === 3
}

function isNone(value: unknown): boolean {
  return Array.isArray(value) && value.length === 0
}

function filled(made: Json, said: unknown): Json {
  if (isBody(said)) for (const name in said) made[name] = said[name]
  return made
}

/** Returns true for a decoded value with fields: neither a list nor bytes. */
export function isBody(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Uint8Array)
}
