import { type AgentRecord, type EffectivePolicy, type PassOverPreferences, pairKey } from '@passover/schemas'
import { omitUndefined } from '../runtime/omit-undefined.js'
import { MAX_APPROVAL_EXPIRES_MS, POLICY_FIELDS, type PolicyField, type PolicyFieldName, SYSTEM_DEFAULTS } from './fields.js'
import { isWider, narrowest } from './narrowing.js'

/** Source of a value, most specific first. `request`: its own timeout_ms or auto_apply_on_success. `registry`: the agent's record. */
export type Level = 'override' | 'request' | 'pair' | 'subagent' | 'registry' | 'global' | 'system'

export interface ResolvedPolicy {
  effective: Readonly<EffectivePolicy>
  sources: Readonly<Record<PolicyFieldName, Level>>
  /** The most specific entry that sets anything: `pair alice->audit`, `subagent audit`, `defaults`, `system`. */
  policy_name: string
  /** True if the request changed anything. */
  overridden: boolean
  /** Rates of both levels: the pair's limit counts its own passes, the subagent's (from its entry or its record) all passes to it. */
  limits?: Limits | undefined
}

type Rates = Pick<EffectivePolicy, 'max_passes_per_minute' | 'max_active'>
export interface Limits {
  pair: Rates
  subagent: Rates
}

/**
 * Returns an originator's share of a subagent's limit: half, rounded up. A pair that sets the same limit itself is exempt: its own limit applies,
 * because a person chose it.
 */
export function originatorShare(limit: number): number {
  return Math.ceil(limit / 2)
}

interface Found {
  value: unknown
  source: Level
}

/** Values set by each level, under the level's own field names. */
export type Layers = Partial<Record<Level, Record<string, unknown>>>

/** Levels below the request, most specific first. */
export const BELOW_REQUEST = ['pair', 'subagent', 'registry', 'global', 'system'] as const
const FIELDS = Object.entries(POLICY_FIELDS) as [PolicyFieldName, PolicyField][]
const MAX_CACHED_PAIRS = 10_000

/** Cache of resolved policies. Resolving is the expensive part of admission, and its result changes only with the document or the agent's record. */
const known = new WeakMap<PassOverPreferences, Map<string, { agent: AgentRecord | undefined; resolved: ResolvedPolicy }>>()

/** Returns the policy of a pair before any request changes it. The same document, names and record return the same object. */
export function basePolicy(
  policy: PassOverPreferences,
  pair: { from: string; to: string },
  agent: AgentRecord | undefined,
): ResolvedPolicy {
  const name = pairKey(pair.from, pair.to)
  const ofDocument = known.get(policy) ?? new Map()
  const present = ofDocument.get(name)
  if (present && present.agent === agent) return present.resolved
  const resolved = resolve(layersOf(policy, pair, agent), pair)
  if (ofDocument.size >= MAX_CACHED_PAIRS) ofDocument.clear()
  known.set(policy, ofDocument.set(name, { agent, resolved }))
  return resolved
}

function resolve(layers: Layers, pair: { from: string; to: string }): ResolvedPolicy {
  const effective: Record<string, unknown> = {}
  const sources = {} as Record<PolicyFieldName, Level>
  for (const [name, field] of FIELDS) {
    const { value, source } = bounded(name, fieldOf(name, field, layers), layers)
    if (value !== undefined) effective[name] = value
    sources[name] = source
  }
  effective.max_compute_time_ms ??= effective.timeout_ms
  // Every value was validated by the schema of the level that it comes from.
  return Object.freeze({
    effective: Object.freeze(effective) as Readonly<EffectivePolicy>,
    sources: Object.freeze(sources),
    policy_name: nameOf(layers, pair),
    overridden: false,
    limits: limitsOf(layers),
  })
}

function limitsOf({ pair, subagent, registry }: Layers): Limits | undefined {
  const rates = (...levels: (Rates | undefined)[]): Rates =>
    omitUndefined({
      max_passes_per_minute: levels.find((level) => level?.max_passes_per_minute !== undefined)?.max_passes_per_minute,
      max_active: levels.find((level) => level?.max_active !== undefined)?.max_active,
    })
  const limits = { pair: rates(pair), subagent: rates(subagent, registry) }
  return Object.keys({ ...limits.pair, ...limits.subagent }).length > 0 ? limits : undefined
}

export function layersOf(policy: PassOverPreferences, { from, to }: { from: string; to: string }, agent: AgentRecord | undefined): Layers {
  const layers: Layers = { system: SYSTEM_DEFAULTS }
  const pair = entry(policy.pairs, pairKey(from, to))
  const subagent = entry(policy.subagents, to)
  if (pair) layers.pair = pair
  if (subagent) layers.subagent = subagent
  if (agent?.defaults) layers.registry = agent.defaults
  if (policy.defaults) layers.global = policy.defaults
  return layers
}

/** Returns an entry's own property, because an agent may be named `constructor`. */
function entry<T>(entries: Record<string, T> | undefined, name: string): T | undefined {
  return entries && Object.hasOwn(entries, name) ? entries[name] : undefined
}

function fieldOf(name: PolicyFieldName, field: PolicyField, layers: Layers): Found {
  if (field.intersect) return intersected(field, saidOf(name, layers))
  for (const source of SOURCES[name]) {
    const value = valueAt(name, source, layers)
    if (value !== undefined) return { value, source }
  }
  return NOTHING
}

const NOTHING: Found = { value: undefined, source: 'system' }

/** Levels below a request at which each field may be set, most specific first. */
const SOURCES = Object.fromEntries(
  FIELDS.map(([name, field]) => [name, BELOW_REQUEST.filter((source) => isAllowedAt(field, source))]),
) as Record<PolicyFieldName, (typeof BELOW_REQUEST)[number][]>

function valueAt(name: PolicyFieldName, source: Level, layers: Layers): unknown {
  const layer = layers[source]
  if (layer === undefined) return undefined
  const field: PolicyField = POLICY_FIELDS[name]
  return layer[source === 'global' ? (field.global ?? name) : name]
}

/** Returns the values that the levels set for a field, most specific first. */
function saidOf(name: PolicyFieldName, layers: Layers): Found[] {
  return SOURCES[name].map((source) => ({ value: valueAt(name, source, layers), source })).filter(({ value }) => value !== undefined)
}

export function isAllowedAt(field: PolicyField, source: (typeof BELOW_REQUEST)[number]): boolean {
  return source === 'system' || field.levels.includes(source === 'registry' ? 'subagent' : source)
}

/**
 * Returns the narrower value of pair and subagent, because both apply (I5). The registry is used only if the policy's
 * entry for the subagent does not set the field.
 */
function intersected(field: PolicyField, found: Found[]): Found {
  const pair = found.find(({ source }) => source === 'pair')
  const subagent = found.find(({ source }) => source === 'subagent' || source === 'registry')
  if (!pair || !subagent) return found[0] ?? NOTHING
  const value = narrowest(field.narrower, pair.value, subagent.value)
  return { value, source: isWider(field.narrower, pair.value, subagent.value) ? subagent.source : 'pair' }
}

/** Limits a value: timeouts never exceed max_timeout_ms, approvals never seven days, whatever a policy says. */
function bounded(name: PolicyFieldName, found: Found, layers: Layers): Found {
  const bound = name === 'timeout_ms' ? maxTimeout(layers) : name === 'approval_expires_ms' ? MAX_APPROVAL_EXPIRES_MS : undefined
  if (bound === undefined || typeof found.value !== 'number' || found.value <= bound) return found
  return { ...found, value: bound }
}

function maxTimeout(layers: Layers): number {
  const value = layers.global?.max_timeout_ms
  return typeof value === 'number' ? Math.min(value, SYSTEM_DEFAULTS.max_timeout_ms) : SYSTEM_DEFAULTS.max_timeout_ms
}

function nameOf(layers: Layers, { from, to }: { from: string; to: string }): string {
  if (layers.pair) return `pair ${pairKey(from, to)}`
  if (layers.subagent) return `subagent ${to}`
  return layers.global ? 'defaults' : 'system'
}
