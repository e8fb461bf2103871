import { type AgentRecord, type EffectivePolicy, type PassOverPreferences, pairKey } from '@passover/schemas'
import { omitUndefined } from '../runtime/omit-undefined.js'
import { MAX_APPROVAL_EXPIRES_MS, POLICY_FIELDS, type PolicyField, type PolicyFieldName, SYSTEM_DEFAULTS } from './fields.js'
import { isWider, narrowest } from './narrowing.js'

/** Where a value came from, most specific first. `request`: its own timeout_ms or auto_apply_on_success. `registry`: the agent's record. */
export type Level = 'override' | 'request' | 'pair' | 'subagent' | 'registry' | 'global' | 'system'

export interface ResolvedPolicy {
  effective: Readonly<EffectivePolicy>
  sources: Readonly<Record<PolicyFieldName, Level>>
  /** The most specific entry that says something: `pair alice->audit`, `subagent audit`, `defaults`, `system`. */
  policy_name: string
  /** Whether the request changed anything. */
  overridden: boolean
  /** Rates of both levels: the pair's count its own passes, the subagent's (its entry, else its record) all passes to it. */
  limits?: Limits | undefined
}

type Rates = Pick<EffectivePolicy, 'max_passes_per_minute' | 'max_active'>
export interface Limits {
  pair: Rates
  subagent: Rates
}

/**
 * Returns what one originator may have of a subagent's limit: half, rounded up. A pair with the same limit of its own is bound by that
 * instead, since a person said what its originator may have.
 */
export function originatorShare(limit: number): number {
  return Math.ceil(limit / 2)
}

interface Found {
  value: unknown
  source: Level
}

/** What each level says, by the names of its own fields. */
export type Layers = Partial<Record<Level, Record<string, unknown>>>

/** Most specific first. */
export const BELOW_REQUEST = ['pair', 'subagent', 'registry', 'global', 'system'] as const
const FIELDS = Object.entries(POLICY_FIELDS) as [PolicyFieldName, PolicyField][]
const MAX_CACHED_PAIRS = 10_000

/** Resolving is the costly part of admission and changes only with the document or the agent's record. */
const known = new WeakMap<PassOverPreferences, Map<string, { agent: AgentRecord | undefined; resolved: ResolvedPolicy }>>()

/** The policy of a pair before any request changes it. The same document, names and record give the same object. */
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
  // Every value passed the schema of the level that it comes from.
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

/** Agents may be called `constructor`. */
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

/** Where each field may stand below a request, most specific first. */
const SOURCES = Object.fromEntries(
  FIELDS.map(([name, field]) => [name, BELOW_REQUEST.filter((source) => isAllowedAt(field, source))]),
) as Record<PolicyFieldName, (typeof BELOW_REQUEST)[number][]>

function valueAt(name: PolicyFieldName, source: Level, layers: Layers): unknown {
  const layer = layers[source]
  if (layer === undefined) return undefined
  const field: PolicyField = POLICY_FIELDS[name]
  return layer[source === 'global' ? (field.global ?? name) : name]
}

/** What every level says of a field, most specific first. */
function saidOf(name: PolicyFieldName, layers: Layers): Found[] {
  return SOURCES[name].map((source) => ({ value: valueAt(name, source, layers), source })).filter(({ value }) => value !== undefined)
}

export function isAllowedAt(field: PolicyField, source: (typeof BELOW_REQUEST)[number]): boolean {
  return source === 'system' || field.levels.includes(source === 'registry' ? 'subagent' : source)
}

/** Pair and subagent both bind (I5); the registry speaks only where the policy's entry for the subagent does not. */
function intersected(field: PolicyField, found: Found[]): Found {
  const pair = found.find(({ source }) => source === 'pair')
  const subagent = found.find(({ source }) => source === 'subagent' || source === 'registry')
  if (!pair || !subagent) return found[0] ?? NOTHING
  const value = narrowest(field.narrower, pair.value, subagent.value)
  return { value, source: isWider(field.narrower, pair.value, subagent.value) ? subagent.source : 'pair' }
}

/** Nothing exceeds max_timeout_ms, or seven days for an approval, whatever a policy says. */
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
