import type { EffectivePolicy } from '@passover/schemas'

/** Level at which a value may be set in a policy, most specific first. */
export type PolicyLevel = 'override' | 'pair' | 'subagent' | 'global'

/**
 * The direction in which a field becomes narrower: `false`, `true`, the `smaller` number (or each number of a budget, where none means no limit), the
 * `subset` (none means everything), `any` direction, or `none` if the field limits nothing.
 */
export type Narrower = 'false' | 'true' | 'smaller' | 'subset' | 'any' | 'none'

export interface PolicyField {
  levels: readonly PolicyLevel[]
  narrower: Narrower
  /** True for rights: if several levels set the field, the narrowest value applies (P5), not the most specific. */
  intersect?: true
  /** Name among the global defaults, if different. */
  global?: 'require_confirmation'
}

export const DEFAULT_TIMEOUT_MS = 30_000
const DAY_MS = 86_400_000
export const MAX_APPROVAL_EXPIRES_MS = 7 * DAY_MS

const OPSG = ['override', 'pair', 'subagent', 'global'] as const
const PSG = ['pair', 'subagent', 'global'] as const
const PS = ['pair', 'subagent'] as const
const SG = ['subagent', 'global'] as const
const PG = ['pair', 'global'] as const

/** Levels and narrower direction of every field (docs/reference/policy.md). Defaults are in SYSTEM_DEFAULTS. */
export const POLICY_FIELDS = {
  enabled: { levels: ['pair'], narrower: 'false' },
  reason: { levels: ['pair'], narrower: 'none' },
  can_receive_passes: { levels: ['subagent'], narrower: 'false' },
  auto_return: { levels: OPSG, narrower: 'false' },
  auto_review: { levels: OPSG, narrower: 'false' },
  auto_apply: { levels: OPSG, narrower: 'false' },
  require_user_approval: { levels: OPSG, narrower: 'true', global: 'require_confirmation' },
  hold_before_dispatch: { levels: OPSG, narrower: 'true' },
  approval_expires_ms: { levels: PSG, narrower: 'smaller' },
  timeout_ms: { levels: OPSG, narrower: 'smaller' },
  max_timeout_ms: { levels: ['global'], narrower: 'smaller' },
  return_deadline_ms: { levels: ['global'], narrower: 'smaller' },
  max_chain_depth: { levels: PSG, narrower: 'smaller' },
  max_compute_time_ms: { levels: ['subagent'], narrower: 'smaller' },
  max_memory_mb: { levels: ['subagent'], narrower: 'smaller' },
  pass_context: { levels: OPSG, narrower: 'false' },
  pass_files: { levels: OPSG, narrower: 'false' },
  max_context_size_bytes: { levels: OPSG, narrower: 'smaller' },
  notify_on_return: { levels: OPSG, narrower: 'any' },
  can_modify_files: { levels: PS, narrower: 'false', intersect: true },
  can_run_tools: { levels: PS, narrower: 'false', intersect: true },
  tools: { levels: PS, narrower: 'subset', intersect: true },
  validate_output: { levels: ['subagent'], narrower: 'true' },
  output_schema: { levels: ['subagent'], narrower: 'none' },
  max_attempts: { levels: SG, narrower: 'smaller' },
  lease_ms: { levels: SG, narrower: 'smaller' },
  max_passes_per_minute: { levels: PS, narrower: 'smaller' },
  max_active: { levels: PS, narrower: 'smaller' },
  max_passes_per_session: { levels: PG, narrower: 'smaller' },
  max_held: { levels: PG, narrower: 'smaller' },
  max_open: { levels: PG, narrower: 'smaller' },
  budget: { levels: ['override', 'pair', 'global'], narrower: 'smaller' },
  allow_widening: { levels: ['pair'], narrower: 'subset' },
  approvers: { levels: PG, narrower: 'subset' },
} as const satisfies Record<string, PolicyField>

export type PolicyFieldName = keyof typeof POLICY_FIELDS

/**
 * Values that apply if no level sets the field. A field that is not listed has no limit by default; max_compute_time_ms defaults to the pass's
 * timeout.
 */
export const SYSTEM_DEFAULTS = {
  enabled: true,
  can_receive_passes: true,
  auto_return: false,
  auto_review: false,
  auto_apply: false,
  require_user_approval: true,
  hold_before_dispatch: false,
  approval_expires_ms: DAY_MS,
  timeout_ms: DEFAULT_TIMEOUT_MS,
  max_timeout_ms: DAY_MS,
  return_deadline_ms: DAY_MS,
  max_chain_depth: 3,
  pass_context: true,
  pass_files: true,
  max_context_size_bytes: 5 * 1024 * 1024,
  notify_on_return: 'always',
  can_modify_files: false,
  can_run_tools: true,
  validate_output: true,
  max_attempts: 3,
  lease_ms: 5_000,
  max_passes_per_session: 1_000,
  max_held: 1_000,
  max_open: 10_000,
  allow_widening: ['timeout_ms', 'auto_return', 'notify_on_return'],
} as const satisfies Partial<EffectivePolicy>
