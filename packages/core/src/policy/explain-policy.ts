import type { PassError, PassOverPreferences } from '@passover/schemas'
import { pairKey } from '@passover/schemas'
import { BELOW_REQUEST, isAllowedAt, type Level, layersOf, originatorShare } from './base-policy.js'
import { type PathSegment, type PolicyPlace, pathText } from './document-path.js'
import { POLICY_FIELDS, type PolicyField, type PolicyFieldName } from './fields.js'
import { type PolicyInput, resolvePolicy } from './resolve-policy.js'

export interface ExplainedField {
  field: PolicyFieldName
  /** `undefined` means no limit, or everything. */
  value: unknown
  level: Level
  /** Place at which the value is set. */
  place: PolicyPlace
  /** For limits that both the pair and the subagent count: the other limit, which applies too. */
  also: PolicyPlace[]
  /** This originator's share of a subagent's limit, if the pair has no limit of its own. */
  share?: number
  /** All levels below the request that set the field, most specific first. Those in neither `place` nor `also` are overruled. */
  said: PolicyPlace[]
}

export interface ExplainedPolicy {
  policy_name: string
  overridden: boolean
  fields: ExplainedField[]
}

/**
 * Limits of which both apply, because pair and subagent count different passes (decision 30). The agent's record is used if the policy's
 * entry for the subagent does not set the field.
 */
const BOTH_BIND: ReadonlySet<PolicyFieldName> = new Set(['max_passes_per_minute', 'max_active'])

/**
 * Returns the policy of a pass with, for every field, the level that its value came from and the values of other levels. E013 as in `resolvePolicy`.
 */
export function explainPolicy(
  document: PassOverPreferences,
  input: PolicyInput,
): { ok: true; value: ExplainedPolicy } | { ok: false; error: PassError } {
  const resolved = resolvePolicy(document, input)
  if (!resolved.ok) return resolved
  const { effective, sources, policy_name, overridden } = resolved.value
  const layers = layersOf(document, input, input.agent)
  const fields = (Object.entries(POLICY_FIELDS) as [PolicyFieldName, PolicyField][]).map(([field, row]): ExplainedField => {
    const level = sources[field]
    const value: unknown = effective[field]
    const said = BELOW_REQUEST.filter((one) => isAllowedAt(row, one)).flatMap((one) => {
      const own: unknown = layers[one]?.[nameAt(one, field, row)]
      return own === undefined ? [] : [placeFor(one, { field, row, input, value: own })]
    })
    const also = level === 'pair' && BOTH_BIND.has(field) ? said.filter((one) => one.level !== 'pair').slice(0, 1) : []
    const share = BOTH_BIND.has(field) && level !== 'pair' && typeof value === 'number' ? { share: originatorShare(value) } : {}
    return { field, value, level, place: placeFor(level, { field, row, input, value }), also, ...share, said }
  })
  return { ok: true, value: { policy_name, overridden, fields } }
}

function nameAt(level: Level, field: PolicyFieldName, row: PolicyField): string {
  return level === 'global' ? (row.global ?? field) : field
}

interface Where {
  field: PolicyFieldName
  row: PolicyField
  input: PolicyInput
  value: unknown
}

function placeFor(level: Level, { field, row, input, value }: Where): PolicyPlace {
  const name = nameAt(level, field, row)
  const inDocument = (at: PathSegment[]): PolicyPlace => ({ level, path: pathText(at), at, value })
  switch (level) {
    case 'pair':
      return inDocument(['pairs', pairKey(input.from, input.to), name])
    case 'subagent':
      return inDocument(['subagents', input.to, name])
    case 'global':
      return inDocument(['defaults', name])
    case 'override':
      return { level, path: `the request's override.${name}`, value }
    case 'request':
      return { level, path: `the request's ${field === 'auto_apply' ? 'auto_apply_on_success' : field}`, value }
    case 'registry':
      return { level, path: `agent ${input.to}, defaults.${name}`, value }
    case 'system':
      return { level, path: 'the system', value }
  }
}
