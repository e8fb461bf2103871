import type { AgentPairOverride, AgentRecord, EffectivePolicy, PassError, PassOverPreferences } from '@passover/schemas'
import { isBody } from '../codec/output-codec.js'
import { passError } from '../errors.js'
import { omitUndefined } from '../runtime/omit-undefined.js'
import { basePolicy, type Level, type ResolvedPolicy } from './base-policy.js'
import { POLICY_FIELDS, type PolicyField, type PolicyFieldName } from './fields.js'
import { isWider } from './narrowing.js'

export interface PolicyInput {
  from: string
  to: string
  override?: AgentPairOverride | undefined
  /** The request's own two settings, which are overrides too; `override` takes precedence. */
  request?: { timeout_ms?: number | undefined; auto_apply_on_success?: boolean | undefined } | undefined
  /** The subagent's record. Its defaults rank below the policy's entry for the subagent. */
  agent?: AgentRecord | undefined
}

export type PolicyVerdict = { ok: true; value: ResolvedPolicy } | { ok: false; error: PassError }

/**
 * Resolves the policy of one pass, field by field: inline override > request's own > pair > subagent > registry > global > system. Rights are the
 * intersection of the values of pair and subagent (I5). Fails with E013, naming the field, for an override that widens a field not listed in
 * allow_widening, or sets a field that no request may set.
 */
export function resolvePolicy(policy: PassOverPreferences, input: PolicyInput): PolicyVerdict {
  const base = basePolicy(policy, input, input.agent)
  const { override, request } = input
  if (override !== undefined) return changed(base, Object.entries(override), request)
  return request === undefined ? { ok: true, value: base } : changedByOwn(base, request)
}

const OWN_KEPT = 1_000
/**
 * Cache of verdicts on requests without an override, per policy of a pair. Requests use few different timeouts, and computing a verdict is expensive.
 */
const known = new WeakMap<ResolvedPolicy, Map<string, PolicyVerdict>>()

function changedByOwn(base: ResolvedPolicy, request: NonNullable<PolicyInput['request']>): PolicyVerdict {
  const name = `${request.timeout_ms} ${request.auto_apply_on_success}`
  const ofBase = known.get(base) ?? new Map<string, PolicyVerdict>()
  const found = ofBase.get(name)
  if (found) return found
  const verdict = changed(base, [], request)
  if (ofBase.size >= OWN_KEPT) ofBase.clear()
  known.set(base, ofBase.set(name, verdict))
  return verdict
}

function changed(base: ResolvedPolicy, override: [string, unknown][], request: PolicyInput['request']): PolicyVerdict {
  const inline = override.filter(([, value]) => value !== undefined)
  const own = Object.entries(omitUndefined({ timeout_ms: request?.timeout_ms, auto_apply: request?.auto_apply_on_success }))
  if (inline.length === 0 && own.length === 0) return { ok: true, value: base }

  const effective = copyOf<unknown>(base.effective)
  const sources = copyOf<Level>(base.sources)
  let overridden = false
  for (const [name, value, source] of winners(inline, own)) {
    const error = fieldFault(name, value, base.effective)
    if (error) return { ok: false, error }
    const before = effective[name]
    effective[name] = isBody(before) && isBody(value) ? { ...before, ...omitUndefined(value) } : value
    sources[name] = source
    overridden ||= JSON.stringify(effective[name]) !== JSON.stringify(before)
  }
  if (sources.max_compute_time_ms === 'system') effective.max_compute_time_ms = effective.timeout_ms
  // Every value was validated by the schema of its level, and every field name is in POLICY_FIELDS.
  const value = {
    policy_name: base.policy_name,
    effective: Object.freeze(effective) as Readonly<EffectivePolicy>,
    sources: Object.freeze(sources) as Record<PolicyFieldName, Level>,
    overridden,
    limits: base.limits,
  }
  return { ok: true, value }
}

const NAMES = Object.keys(POLICY_FIELDS)

/** Copies field by field: spreading objects of thirty fields, with a different shape for each pair, takes seven times as long. */
function copyOf<T>(from: object): Record<string, T> {
  const copy: Record<string, T> = {}
  for (const name of NAMES) {
    const value = (from as Record<string, T | undefined>)[name]
    if (value !== undefined) copy[name] = value
  }
  return copy
}

type Asked = [name: string, value: unknown, source: Level]

function winners(inline: [string, unknown][], own: [string, unknown][]): Asked[] {
  const named = new Set(inline.map(([name]) => name))
  const left = own.filter(([name]) => !named.has(name))
  return [
    ...inline.map(([name, value]): Asked => [name, value, 'override']),
    ...left.map(([name, value]): Asked => [name, value, 'request']),
  ]
}

function fieldFault(name: string, asked: unknown, base: Readonly<EffectivePolicy>): PassError | undefined {
  const field: PolicyField | undefined = Object.hasOwn(POLICY_FIELDS, name) ? POLICY_FIELDS[name as PolicyFieldName] : undefined
  if (!field?.levels.includes('override')) return refusal(name, 'requests may not set it', { asked })
  const limit = base.max_timeout_ms
  if (name === 'timeout_ms' && isWider('smaller', asked, limit)) {
    return refusal(name, `its limit is ${limit}`, { asked, allowed: limit })
  }
  const allowed = base[name as PolicyFieldName]
  const widens = isWider(field.narrower, asked, allowed) && !base.allow_widening.some((widenable) => widenable === name)
  if (!widens) return undefined
  return refusal(name, `the policy sets ${JSON.stringify(allowed)}, and a request may not widen it to ${JSON.stringify(asked)}`, {
    asked,
    allowed,
  })
}

function refusal(field: string, why: string, details: Record<string, unknown>): PassError {
  return passError('E013', `Override of ${field} refused: ${why}`, { field, ...details })
}
