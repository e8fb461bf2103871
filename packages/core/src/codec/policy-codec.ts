import type { EffectivePolicy, PolicyFrame } from '@passover/schemas'

/**
 * Base policies that policies in work and held steps are encoded against, by number. Stored steps refer to them, so a base never changes; if the
 * system's defaults change, they get the next number (decision 39). `max_compute_time_ms` is the pass's timeout if a frame does not contain it.
 */
const BASES: Record<number, Readonly<Partial<EffectivePolicy>>> = {
  1: {
    enabled: true,
    can_receive_passes: true,
    auto_return: false,
    auto_review: false,
    auto_apply: false,
    require_user_approval: true,
    hold_before_dispatch: false,
    approval_expires_ms: 86_400_000,
    timeout_ms: 30_000,
    max_timeout_ms: 86_400_000,
    return_deadline_ms: 86_400_000,
    max_chain_depth: 3,
    pass_context: true,
    pass_files: true,
    max_context_size_bytes: 5_242_880,
    notify_on_return: 'always',
    can_modify_files: false,
    can_run_tools: true,
    validate_output: true,
    max_attempts: 3,
    lease_ms: 5_000,
    max_passes_per_session: 1_000,
    allow_widening: ['timeout_ms', 'auto_return', 'notify_on_return'],
  },
}
const NEWEST = 1
/**
 * Fields newer than the newest base, with their values if a frame does not name them. They have no base of their own, because processes of earlier
 * versions could not read a frame with an unknown base. Frames written by those processes get the same values.
 */
const ADDED: Readonly<Partial<EffectivePolicy>> = { max_held: 1_000, max_open: 10_000 }

/** Caches per policy: it is the same object for every pass of a pair. */
const packed = new WeakMap<object, PolicyFrame>()
const opened = new WeakMap<object, EffectivePolicy>()

/** Packs a policy as its differences from the newest base. The same policy returns the same frozen frame. */
export function packPolicy(policy: Readonly<EffectivePolicy>): PolicyFrame {
  const known = packed.get(policy)
  if (known) return known
  const base: Record<string, unknown> = { ...BASES[NEWEST], ...ADDED }
  const frame: Record<string, unknown> = { base: NEWEST }
  for (const [name, value] of Object.entries(policy)) {
    const implied = name === 'max_compute_time_ms' ? policy.timeout_ms : base[name]
    if (value !== undefined && !isSame(value, implied)) frame[name] = value
  }
  const lacks = Object.keys(base).filter((name) => policy[name as keyof EffectivePolicy] === undefined)
  if (lacks.length > 0) frame.lacks = lacks
  packed.set(policy, Object.freeze(frame))
  return frame
}

/** Restores the complete policy of a frame, or returns `undefined` if its base is unknown. The same frame returns the same frozen policy. */
export function openPolicy(frame: PolicyFrame): EffectivePolicy | undefined {
  const known = opened.get(frame)
  if (known) return known
  const { base, lacks = [], ...said } = frame
  const from = base === undefined ? {} : BASES[base]
  if (!from) return undefined
  const policy: Record<string, unknown> = { ...ADDED, ...from, ...said }
  for (const name of lacks) delete policy[name]
  if (base !== undefined) policy.max_compute_time_ms ??= policy.timeout_ms
  Object.freeze(policy)
  opened.set(frame, policy as EffectivePolicy)
  return policy as EffectivePolicy
}

/** Compares two values of a policy, which are plain data. */
function isSame(one: unknown, other: unknown): boolean {
  return one === other || (typeof one === 'object' && JSON.stringify(one) === JSON.stringify(other))
}
