import { z } from 'zod'
import { capKeys, filled, jsonRecord, list, strict, text, time } from '../base/bounded-types.js'
import { agentName } from '../base/identifiers.js'
import { LIMITS } from '../base/limits.js'

/**
 * Configuration: the fields allowed at each level. Every field in a file is optional, and unknown keys are refused. `effectivePolicy` has the same
 * fields after resolving. Defaults are in SYSTEM_DEFAULTS of core.
 */

export const notifyOnReturn = z.enum(['always', 'only_issues', 'never'])
export type NotifyOnReturn = z.infer<typeof notifyOnReturn>

/** Budget of a pass and everything below it. */
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
      `The loop breaker: refuses a ${what} with E014 if its session already had this number of passes. For a root pass, counts all root passes of its originator in the session, to all subagents together. For a child, counts all passes of its originator within the tree of the same root. If no session was named, only children are counted. Default 1,000.`,
    )
const mostHeld = (what: string) =>
  many
    .optional()
    .describe(
      `Refuses a ${what} that needs a person's approval with E014 if this number of passes of its originator, to all subagents together, already wait for approval. Default 1,000.`,
    )
const mostOpen = (what: string) =>
  many
    .optional()
    .describe(
      `Refuses a ${what} with E014 if its originator already has this number of open passes to its subagent, including held ones. If the pair has its own \`max_active\`, that limit applies instead. Default 10,000.`,
    )
const treeBudget = budget
  .optional()
  .describe(
    'Limits of a pass and its descendants: passes, tokens and time. A pass beyond it is refused with E014, and a context with more tokens with E012.',
  )
const tools = list(filled(LIMITS.word), LIMITS.tools)
const person = filled(LIMITS.short)
const deciders = list(person, LIMITS.approvers).optional().describe('Names of the people who may decide. Absent: every person.')
const remark = text(LIMITS.line)
/** Stored times below 1e11 are in seconds: as ms they would be in 1973 or earlier. */
const storedTime = time.overwrite((value) => (value < 1e11 ? value * 1000 : value))

/** Fields of level `override`, which one request may override for itself. */
const overridable = {
  auto_return: flag.optional().describe('Delivers every output without a release by a person, even if it has critical findings.'),
  auto_review: flag
    .optional()
    .describe('Delivers a partial, blocked or rejected output without a release by a person, unless it has a finding of severity `error`.'),
  auto_apply: flag
    .optional()
    .describe(
      'Allows proposed changes to be applied without a decision if request, output and rights allow it, no approval is required, and the output has no critical finding.',
    ),
  require_user_approval: flag.optional().describe('Whether a person must approve proposed changes before they are applied.'),
  hold_before_dispatch: flag.optional().describe('Whether a person must approve the pass before the work starts.'),
  timeout_ms: timeout
    .optional()
    .describe('Deadline of the pass from its admission, in milliseconds, at most `max_timeout_ms`. Beyond it the pass ends with E010.'),
  pass_context: flag.optional().describe('Whether the messages of the context are passed.'),
  pass_files: flag.optional().describe('Whether the contents of files are passed.'),
  max_context_size_bytes: z
    .int()
    .min(0)
    .max(LIMITS.context_bytes)
    .optional()
    .describe('Largest context, in bytes. A larger one is refused with E012.'),
  notify_on_return: notifyOnReturn
    .optional()
    .describe(
      'Which returns listeners, `passover watch` and the webhook are notified of: all, those that are incomplete or have findings, or none.',
    ),
}

/** An inline override. Fields of other levels are refused as unknown. */
export const agentPairOverride = strict({ ...overridable, budget: treeBudget })
export type AgentPairOverride = z.infer<typeof agentPairOverride>

/** Fields whose overrides a pair may allow to widen. */
export const widenable = z.enum(Object.keys(agentPairOverride.shape) as (keyof AgentPairOverride)[])
export type Widenable = z.infer<typeof widenable>

const approvalExpires = z.int().positive().max(LIMITS.approval_ms)
const held = {
  approval_expires_ms: approvalExpires
    .optional()
    .describe('How long a pass or its result waits for a decision, in milliseconds, at most 7 days. Then it expires with E013.'),
  max_chain_depth: depth
    .optional()
    .describe('Maximum number of passes in one chain, including this one, at most 32. A longer chain is refused with E002.'),
}
const rightsOf = {
  can_modify_files: flag
    .optional()
    .describe(
      'Whether the subagent may change files. `false` makes command workers read-only and rules out automatic apply; proposals are still allowed.',
    ),
  can_run_tools: flag.optional().describe('Whether the subagent may run tools.'),
  tools: tools.optional().describe('Names of the tools that the subagent may run. Absent: all.'),
}
const rates = {
  max_passes_per_minute: many
    .optional()
    .describe(
      'Maximum number of passes that are admitted per minute. Pair and subagent count separately; one originator may use at most half of the limit of a subagent. Beyond it a pass is refused with E014.',
    ),
  max_active: many
    .optional()
    .describe(
      'Maximum number of open passes. Pair and subagent count separately; a subagent does not count held passes, and one originator may use at most half of its limit. Beyond it a pass is refused with E014.',
    ),
}
const leases = {
  max_attempts: z
    .int()
    .positive()
    .max(LIMITS.attempts)
    .optional()
    .describe('Maximum number of attempts. When the worker of the last attempt is lost, the pass ends with E011 and a dead letter.'),
  lease_ms: z
    .int()
    .min(LIMITS.min_lease_ms)
    .max(LIMITS.max_lease_ms)
    .optional()
    .describe('How long a worker holds a pass without renewing its lease, in milliseconds. After that, another worker may take it.'),
}

/** AgentPairPreference as written in a file: all fields optional, `from` and `to` come from its key. */
export const agentPairPreference = strict({
  from: agentName.optional(),
  to: agentName.optional(),

  enabled: flag.optional().describe('Whether the originator may pass work to the subagent. `false` refuses a pass with E004.'),
  reason: remark.optional().describe('Why the pair is disabled. It is part of the E004 error.'),

  ...overridable,
  ...held,
  ...rightsOf,
  ...rates,
  max_passes_per_session: perSession('pass of this pair'),
  max_held: mostHeld('pass of this pair'),
  max_open: mostOpen('pass of this pair'),
  budget: treeBudget,
  allow_widening: list(widenable, widenable.options.length)
    .optional()
    .describe(
      'Fields that a request may widen by `override`. All other fields can only be narrowed; widening one of them is refused with E013.',
    ),
  approvers: deciders,

  created_at: storedTime.optional(),
  updated_at: storedTime.optional(),
  updated_by: person.optional(),
})
export type AgentPairPreference = z.infer<typeof agentPairPreference>

/** SubagentPreference as written in a file: all fields optional, `subagent_id` comes from its key. */
export const subagentPreference = strict({
  subagent_id: agentName.optional(),
  reason: remark.optional(),

  can_receive_passes: flag.optional().describe('Whether the subagent accepts passes. `false` refuses a pass with E001.'),
  ...overridable,
  ...held,
  ...rightsOf,
  ...rates,
  ...leases,
  max_compute_time_ms: timeout
    .optional()
    .describe('Time limit of the handler or command, in milliseconds. Beyond it the pass ends with E010. Absent: the timeout of the pass.'),
  max_memory_mb: z
    .int()
    .positive()
    .max(16_777_216)
    .optional()
    .describe('Memory of a command and all its processes, in MiB. Beyond it the pass ends with E014. Absent: no limit.'),
  validate_output: flag.optional().describe('Whether outputs are checked against `output_schema`.'),
  /** A JSON Schema (2020-12) of the output. */
  output_schema: jsonRecord.optional().describe('JSON Schema (2020-12) of the output. An output that does not match it is E021.'),
})
export type SubagentPreference = z.infer<typeof subagentPreference>

const { require_user_approval: _pairsWord, ...global } = overridable

/** Global defaults. `require_confirmation` is called require_user_approval in pairs. */
export const policyDefaults = strict({
  ...global,
  require_confirmation: flag
    .optional()
    .describe(
      'Whether a person must approve proposed changes before they are applied. Pairs and subagents call it `require_user_approval`.',
    ),
  ...held,
  ...leases,
  max_timeout_ms: timeout.optional().describe('Upper bound of every `timeout_ms`, in milliseconds, at most 24 hours.'),
  return_deadline_ms: z
    .int()
    .positive()
    .max(LIMITS.approval_ms)
    .optional()
    .describe(
      'How long a return waits for an originator with durable returns, in milliseconds, at most 7 days. Then the record says E022; the result stays readable by id.',
    ),
  max_passes_per_session: perSession('pass'),
  max_held: mostHeld('pass'),
  max_open: mostOpen('pass'),
  budget: treeBudget,
  approvers: deciders,
})
export type PolicyDefaults = z.infer<typeof policyDefaults>

export const auditPreference = strict({
  log_all_passes: flag.optional().describe('`false` disables records and exports. The stream and its archive keep every pass anyway.'),
  log_directory: filled(LIMITS.line).optional().describe('Folder to which `passover audit export` writes if `--out` is not given.'),
  retention_days: z.number().positive().max(36_500).optional().describe('How long the archive keeps a segment, in days. Default 30.'),
})
export type AuditPreference = z.infer<typeof auditPreference>

/** `alice->audit`: two agent names without spaces. */
const PAIR = /^([A-Za-z0-9][A-Za-z0-9_-]{0,63})->([A-Za-z0-9][A-Za-z0-9_-]{0,63})$/

/** Returns the key of a pair in the policy. */
export function pairKey(from: string, to: string): string {
  return `${from}->${to}`
}

/** Returns the two names of a pair's key, or `undefined` if the key is malformed. */
export function parsePairKey(key: string): { from: string; to: string } | undefined {
  const [, from, to] = PAIR.exec(key) ?? []
  if (!agentName.safeParse(from).success || !agentName.safeParse(to).success) return undefined
  return from && to ? { from, to } : undefined
}

type Named = Record<string, string | undefined>

/** Fills in the fields that an entry's key implies. An entry with other values is refused. */
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
        issues.push({ code: 'custom', message: `is "${said}", but the key says "${value}"`, input: said, path: [key, field] })
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

/** PassOverPreferences: the policy document, in a file or live. */
export const passOverPreferences = strict({
  /** Schema URL for editors. */
  $schema: text(LIMITS.line).optional(),
  defaults: policyDefaults.optional(),
  pairs: pairs.optional(),
  subagents: subagents.optional(),
  audit: auditPreference.optional(),
})
export type PassOverPreferences = z.infer<typeof passOverPreferences>

/** All fields resolved for one pass. A field without a default is absent: no limit, all tools, all persons may approve. */
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
  /** Absent if an earlier version resolved it; then 1,000. */
  max_held: many.optional(),
  /** Absent if an earlier version resolved it; then 10,000. */
  max_open: many.optional(),
  budget: budget.optional(),
  allow_widening: list(widenable, widenable.options.length),
  approvers: list(person, LIMITS.approvers).optional(),
})
export type EffectivePolicy = z.infer<typeof effectivePolicy>
