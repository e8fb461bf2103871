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
  const frame = left(output, impliedOutput(key))
  const told = left(metadata, impliedMetadata(metadata, key))
  const counted = left(summary, impliedSummary(metadata))
  if (!frame || !told || !counted) return undefined
  frame.metadata = told
  if (Object.keys(counted).length > 0) frame.summary = counted
  else delete frame.summary
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
function left(said: Json, implied: Json): Json | undefined {
  for (const name in implied) if (said[name] === undefined) return undefined
  const rest: Json = {}
  for (const name in said) {
    const value = said[name]
    if (value !== undefined && !isSame(value, implied[name])) rest[name] = value
  }
  return rest
}

function filled(made: Json, said: unknown): Json {
  if (isBody(said)) for (const name in said) made[name] = said[name]
  return made
}

/** Deep, of plain data: objects and lists here are few and small. */
function isSame(one: unknown, other: unknown): boolean {
  if (one === other) return true
  if (typeof one !== 'object' || typeof other !== 'object' || one === null || other === null) return false
  const names = Object.keys(one)
  if (Array.isArray(one) !== Array.isArray(other) || names.length !== Object.keys(other).length) return false
  return names.every((name) => isSame((one as Json)[name], (other as Json)[name]))
}

/** A decoded value with fields: no list, and no bytes. */
export function isBody(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Uint8Array)
}
