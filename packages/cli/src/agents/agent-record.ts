import { type AgentRecord, agentRecord, issueTexts, type Originates, type SubagentPreference } from '@passover/schemas'
import { CliFailure, usage } from '../errors.js'

/** A change of an agent's record, from flags, a file, or both. A flag overrides the file. */
export interface AgentChange {
  name: string
  /** A complete record that replaces the previous one. */
  file?: { path: string; record: unknown } | undefined
  originates?: Originates | undefined
  subagent?: boolean | undefined
  description?: string | undefined
  skills?: string[] | undefined
  /** True if returns are kept for the agent while it is away. */
  durable_returns?: boolean | undefined
  /** Byte limit of the agent's parts bucket. */
  parts_bytes?: number | undefined
  defaults?: SubagentPreference | undefined
  /** Names of defaults to remove. */
  unset?: string[] | undefined
  /** Time at which its credentials were revoked (server ms); `null` if it has valid ones again. */
  revoked_at?: number | null | undefined
}

/** Applies a change to the previous record. Throws CliFailure E030 that names each invalid field and what it may be. */
export function applyAgentChange(
  before: AgentRecord | undefined,
  change: AgentChange,
  by: { person: string; now: number; next_sequence: number },
): AgentRecord {
  const { name, file } = change
  const base = file ? fileRecord(name, file) : (before ?? {})
  const roles = rolesOf(base, change)
  const record: Record<string, unknown> = { ...base, name, roles, registered_by: by.person, updated_at: by.now }
  if (change.description !== undefined) record.description = change.description
  if (change.skills) record.skills = change.skills
  if (change.durable_returns === true && !record.durable_returns) record.durable_returns = { from: by.next_sequence }
  if (change.durable_returns === false) delete record.durable_returns
  if (change.parts_bytes !== undefined) record.parts_bytes = change.parts_bytes
  // Never taken from a file: `agents show --json` prints what the project's keys say.
  const revoked_at = change.revoked_at === undefined ? before?.revoked_at : (change.revoked_at ?? undefined)
  if (revoked_at === undefined) delete record.revoked_at
  else record.revoked_at = revoked_at
  const defaults = defaultsOf(base.defaults, change)
  if (defaults) record.defaults = defaults
  else delete record.defaults
  const parsed = agentRecord.safeParse(record)
  if (parsed.success) return parsed.data
  const faults = issueTexts(parsed.error.issues, 5, 'record')
  throw new CliFailure('E030', `${file ? `${file.path}: ` : ''}${faults.join('; ')}`, {
    hint: `passover agents show ${name} --json shows one`,
  })
}

type Base = Partial<AgentRecord> & Record<string, unknown>

function fileRecord(name: string, { path, record }: NonNullable<AgentChange['file']>): Base {
  if (typeof record !== 'object' || record === null || Array.isArray(record)) {
    throw new CliFailure('E030', `${path} is not a JSON object; an agent record must be one`)
  }
  const said = (record as { name?: unknown }).name
  if (said !== undefined && said !== name) throw usage(`${path} is the record of ${String(said)}, not of ${name}`)
  // Drops the fields that `agents show --json` adds to the record.
  const { workers: _, unverified: __, ...rest } = record as Base
  return rest
}

/**
 * Returns the roles after a change. By default an agent that receives no passes may originate them at any time, others only within a pass;
 * `never` stays until it is changed explicitly.
 */
function rolesOf(base: Base, { originates, subagent }: AgentChange): unknown {
  const before = base.roles as Partial<AgentRecord['roles']> | undefined
  const receives = subagent ?? before?.subagent ?? true
  const turned = subagent !== undefined && subagent !== before?.subagent && before?.originates !== 'never'
  const usual = receives ? 'within_a_pass' : 'always'
  return { ...before, originates: originates ?? (turned ? usual : (before?.originates ?? usual)), subagent: receives }
}

function defaultsOf(before: unknown, { defaults, unset = [] }: AgentChange): Record<string, unknown> | undefined {
  const merged: Record<string, unknown> = { ...(before as Record<string, unknown> | undefined), ...defaults }
  for (const field of unset) delete merged[field]
  return Object.keys(merged).length > 0 ? merged : undefined
}

/** Parses `field=value`. The value is parsed as JSON if it is valid JSON, otherwise taken as text. */
export function parseDefault(text: string): [field: string, value: unknown] {
  const at = text.indexOf('=')
  if (at < 1) throw usage(`--default takes field=value, got "${text}"`)
  const value = text.slice(at + 1)
  try {
    return [text.slice(0, at), JSON.parse(value)]
  } catch {
    return [text.slice(0, at), value]
  }
}
