import { z } from 'zod'
import { capKeys, filled, jsonRecord, list, strict, text, time } from './bounded.js'
import { LIMITS } from './limits.js'
import { agentName } from './names.js'

/**
 * Configuration: which field may stand at which level. Everything in a file is optional and an
 * unknown key is refused; `effectivePolicy` is the same with everything resolved. Defaults stand in core's table.
 */

export const notifyOnReturn = z.enum(['always', 'only_issues', 'never'])
export type NotifyOnReturn = z.infer<typeof notifyOnReturn>

/** What a pass and everything below it may use up. */
export const budget = strict({
  passes: z.int().min(0).max(1_000_000_000).optional(),
  tokens: z.int().min(0).optional(),
  time_ms: z.int().min(0).max(LIMITS.time).optional(),
})
export type Budget = z.infer<typeof budget>

const flag = z.boolean()
const timeout = z.int().positive().max(LIMITS.timeout_ms)
const depth = z.int().positive().max(LIMITS.chain)
const many = z.int().positive().max(1_000_000_000)
const perSession = (what: string) =>
  many
    .optional()
    .describe(
      `The loop breaker: refuses a ${what} with E014 where its session had so many passes already. Counted are all passes without a parent that their originator asked for in the session, to whichever subagent; of a child, all that its originator asked for within the tree of the same root. Where no session was named, only children are counted. Default 1,000.`,
    )
const tools = list(filled(LIMITS.word), LIMITS.tools)
const person = filled(LIMITS.short)
const remark = text(LIMITS.line)
/** Stored times below 1e11 are seconds: as ms they would lie in 1973. */
const storedTime = time.overwrite((value) => (value < 1e11 ? value * 1000 : value))

/** Fields of level o: what one request may override for itself. */
const overridable = {
  auto_return: flag.optional(),
  auto_review: flag.optional(),
  auto_apply: flag.optional(),
  require_user_approval: flag.optional(),
  hold_before_dispatch: flag.optional(),
  timeout_ms: timeout.optional(),
  pass_context: flag.optional(),
  pass_files: flag.optional(),
  max_context_size_bytes: z.int().min(0).max(LIMITS.context_bytes).optional(),
  notify_on_return: notifyOnReturn.optional(),
}

/** An inline override. A field of another level is refused as unknown. */
export const agentPairOverride = strict({ ...overridable, budget: budget.optional() })
export type AgentPairOverride = z.infer<typeof agentPairOverride>

/** Fields that a pair may let its overrides widen. */
export const widenable = z.enum(Object.keys(agentPairOverride.shape) as (keyof AgentPairOverride)[])
export type Widenable = z.infer<typeof widenable>

const approvalExpires = z.int().positive().max(LIMITS.approval_ms)
const held = { approval_expires_ms: approvalExpires.optional(), max_chain_depth: depth.optional() }
const rightsOf = { can_modify_files: flag.optional(), can_run_tools: flag.optional(), tools: tools.optional() }
const rates = { max_passes_per_minute: many.optional(), max_active: many.optional() }
const leases = {
  max_attempts: z.int().positive().max(LIMITS.attempts).optional(),
  lease_ms: z.int().min(LIMITS.min_lease_ms).max(LIMITS.max_lease_ms).optional(),
}

/** AgentPairPreference as a file has it: all optional, `from` and `to` come from its key. */
export const agentPairPreference = strict({
  from: agentName.optional(),
  to: agentName.optional(),

  enabled: flag.optional(),
  /** Why, told with E004. */
  reason: remark.optional(),

  ...overridable,
  ...held,
  ...rightsOf,
  ...rates,
  max_passes_per_session: perSession('pass of this pair'),
  budget: budget.optional(),
  allow_widening: list(widenable, widenable.options.length).optional(),
  approvers: list(person, LIMITS.approvers).optional(),

  created_at: storedTime.optional(),
  updated_at: storedTime.optional(),
  updated_by: person.optional(),
})
export type AgentPairPreference = z.infer<typeof agentPairPreference>

/** SubagentPreference as a file has it: all optional, `subagent_id` comes from its key. */
export const subagentPreference = strict({
  subagent_id: agentName.optional(),
  reason: remark.optional(),

  can_receive_passes: flag.optional(),
  ...overridable,
  ...held,
  ...rightsOf,
  ...rates,
  ...leases,
  max_compute_time_ms: timeout.optional(),
  max_memory_mb: z.int().positive().max(16_777_216).optional(),
  validate_output: flag.optional(),
  /** A JSON Schema (2020-12) of the output. */
  output_schema: jsonRecord.optional(),
})
export type SubagentPreference = z.infer<typeof subagentPreference>

const { require_user_approval: _pairsWord, ...global } = overridable

/** Global defaults. `require_confirmation` is what pairs call require_user_approval. */
export const policyDefaults = strict({
  ...global,
  require_confirmation: flag.optional(),
  ...held,
  ...leases,
  max_timeout_ms: timeout.optional(),
  return_deadline_ms: z.int().positive().max(LIMITS.approval_ms).optional(),
  max_passes_per_session: perSession('pass'),
  budget: budget.optional(),
  approvers: list(person, LIMITS.approvers).optional(),
})
export type PolicyDefaults = z.infer<typeof policyDefaults>

export const auditPreference = strict({
  /** false suppresses projection and export, never the stream. */
  log_all_passes: flag.optional(),
  log_directory: filled(LIMITS.line).optional(),
  retention_days: z.number().positive().max(36_500).optional(),
})
export type AuditPreference = z.infer<typeof auditPreference>

/** `alice->audit`: no spaces, both are agent names. */
const PAIR = /^([A-Za-z0-9][A-Za-z0-9_-]{0,63})->([A-Za-z0-9][A-Za-z0-9_-]{0,63})$/

/** The key under which a pair stands in the policy. */
export function pairKey(from: string, to: string): string {
  return `${from}->${to}`
}

/** The two names of a pair's key; undefined when it is none. */
export function parsePairKey(key: string): { from: string; to: string } | undefined {
  const [, from, to] = PAIR.exec(key) ?? []
  if (!agentName.safeParse(from).success || !agentName.safeParse(to).success) return undefined
  return from && to ? { from, to } : undefined
}

type Named = Record<string, string | undefined>

/** Fills what an entry's key says; an entry that says otherwise is refused. */
function byKey<T extends object>(entries: Record<string, T>, name: (key: string) => Named | undefined, issues: z.core.$ZodRawIssue[]) {
  const named: Record<string, T> = {}
  for (const [key, entry] of Object.entries(entries)) {
    const names = name(key)
    if (!names) {
      issues.push({ code: 'custom', message: 'the key is not "originator->subagent"', input: key, path: [key] })
      continue
    }
    for (const [field, value] of Object.entries(names)) {
      const said = (entry as Named)[field]
      if (said !== undefined && said !== value) {
        issues.push({ code: 'custom', message: `says "${said}" under a key that says "${value}"`, input: said, path: [key, field] })
      }
    }
    named[key] = { ...names, ...entry }
  }
  return named
}

const pairs = capKeys(
  z.record(filled(LIMITS.short), agentPairPreference).check((payload) => {
    payload.value = byKey(payload.value, parsePairKey, payload.issues)
  }),
  LIMITS.pairs,
)

const subagents = capKeys(
  z.record(agentName, subagentPreference).check((payload) => {
    payload.value = byKey(payload.value, (key) => ({ subagent_id: key }), payload.issues)
  }),
  LIMITS.subagents,
)

/** PassOverPreferences: the policy document, file and live. */
export const passOverPreferences = strict({
  /** For editors. */
  $schema: text(LIMITS.line).optional(),
  defaults: policyDefaults.optional(),
  pairs: pairs.optional(),
  subagents: subagents.optional(),
  audit: auditPreference.optional(),
})
export type PassOverPreferences = z.infer<typeof passOverPreferences>

/** Every field resolved for one pass. What has no default is absent: no limit, all tools, everybody approves. */
export const effectivePolicy = z.object({
  enabled: flag,
  reason: remark.optional(),
  can_receive_passes: flag,
  auto_return: flag,
  auto_review: flag,
  auto_apply: flag,
  require_user_approval: flag,
  hold_before_dispatch: flag,
  approval_expires_ms: approvalExpires,
  timeout_ms: timeout,
  max_timeout_ms: timeout,
  return_deadline_ms: z.int().positive().max(LIMITS.approval_ms),
  max_chain_depth: depth,
  max_compute_time_ms: timeout,
  max_memory_mb: z.int().positive().optional(),
  pass_context: flag,
  pass_files: flag,
  max_context_size_bytes: z.int().min(0).max(LIMITS.context_bytes),
  notify_on_return: notifyOnReturn,
  can_modify_files: flag,
  can_run_tools: flag,
  tools: tools.optional(),
  validate_output: flag,
  output_schema: jsonRecord.optional(),
  max_attempts: z.int().positive().max(LIMITS.attempts),
  lease_ms: z.int().min(LIMITS.min_lease_ms).max(LIMITS.max_lease_ms),
  max_passes_per_minute: many.optional(),
  max_active: many.optional(),
  max_passes_per_session: many,
  budget: budget.optional(),
  allow_widening: list(widenable, widenable.options.length),
  approvers: list(person, LIMITS.approvers).optional(),
})
export type EffectivePolicy = z.infer<typeof effectivePolicy>
