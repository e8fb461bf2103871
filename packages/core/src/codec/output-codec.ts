import type { PassKey } from '@passover/schemas'

type Json = Record<string, unknown>

/** What a brief output leaves out, by number, as of a policy's frame: stored returns are read by it. One that names none means this one. */
const BASE = 1

/** The output in a return's body, opened if it is brief. A worker that speaks JSON may send the bare output. One of a base that is not known here opens as no output, and says so. */
export function outputIn(body: Json, key: PassKey): Json {
  if (!('v' in body)) return body
  if (isBody(body.brief)) return body.base === undefined || body.base === BASE ? openOutput(body.brief, key) : { unknown_base: body.base }
  return isBody(body.output) ? body.output : body
}

/**
 * An output as it travels in a return (decision 39): without what subject, headers and the rest of it imply, which is most of what
 * the system filled in. Undefined for one that does not have it all: it travels whole. Artifacts that are parts are references here.
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

/** The whole output again. What is no frame gives what is no output. */
export function openOutput(frame: Json, key: PassKey): Json {
  const metadata = isBody(frame.metadata) ? frame.metadata : {}
  const output = filled(impliedOutput(key), frame)
  output.metadata = filled(impliedMetadata(metadata, key), metadata)
  output.summary = isBody(frame.summary) || frame.summary === undefined ? filled(impliedSummary(metadata), frame.summary) : frame.summary
  return output
}

/** What must be there to be left out. */
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

/** Its times are what nothing implies. */
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

/** As completeOutput has it. */
function elapsed(from: unknown, to: unknown): number {
  return typeof from === 'number' && typeof to === 'number' ? Math.max(0, to - from) : 0
}

/** What a record says beyond what is implied; undefined where it lacks something that would be filled in. */
function left(said: Json, filled_in: readonly string[], isImplied: (name: string) => boolean): Json | undefined {
  for (const name of filled_in) if (said[name] === undefined) return undefined
  const rest: Json = {}
  for (const name in said) {
    const value = said[name]
    if (value !== undefined && !isImplied(name)) rest[name] = value
  }
  return rest
}

/** Whether what `impliedOutput` says of a field is what the output says. Asked for every pass: to make the implied one whole costs 3 µs. */
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
    // Added in brief.
    case 'summary':
    case 'metadata':
      return true
    default:
      return false
  }
}

/** The same for `impliedSummary`. */
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

/** The same for `impliedMetadata`. */
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

/** A decoded value with fields: no list, and no bytes. */
export function isBody(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Uint8Array)
}
