import { type PassError, pairKey } from '@passover/schemas'
import type { Level, ResolvedPolicy } from '../policy/base-policy.js'
import { pathText } from '../policy/document-path.js'
import { POLICY_FIELDS, type PolicyField, type PolicyFieldName } from '../policy/fields.js'
import type { AdmitInput } from './types.js'

/** Policy field behind each refusal whose error does not name the field itself. */
const FIELD_OF: Partial<Record<PassError['code'], PolicyFieldName>> = {
  E001: 'can_receive_passes',
  E002: 'max_chain_depth',
  E004: 'enabled',
  E010: 'timeout_ms',
  E012: 'max_context_size_bytes',
}

/** Adds the violated rule to a refusal: the policy's name and version, and the document path or level that sets the value. */
export function underPolicy(
  error: PassError,
  { policy, subject }: Pick<AdmitInput, 'policy' | 'subject'>,
  resolved: Pick<ResolvedPolicy, 'policy_name' | 'sources'>,
): PassError {
  const named = error.details?.field
  const field = typeof named === 'string' ? fieldNamed(named) : FIELD_OF[error.code]
  // A subagent's own limit applies even if the pair sets another value, which then is the recorded source of the field.
  const level = field && (error.details?.scope === 'subagent' && resolved.sources[field] === 'pair' ? 'subagent' : resolved.sources[field])
  const place = field && level && placeOfRule(field, level, subject)
  const rule = { policy_name: resolved.policy_name, policy_version: policy.version, ...(place ? { policy_path: place } : {}) }
  return { ...error, details: { ...error.details, ...rule } }
}

/** Returns the policy field of a dotted name: `budget.passes` belongs to `budget`. */
function fieldNamed(name: string): PolicyFieldName | undefined {
  const [field = ''] = name.split('.')
  return Object.hasOwn(POLICY_FIELDS, field) ? (field as PolicyFieldName) : undefined
}

/** Returns the document path that sets a field's value, or `undefined` for a level that is not in the document. */
export function placeOfRule(field: PolicyFieldName, level: Level, { originator, subagent }: AdmitInput['subject']): string | undefined {
  const row: PolicyField = POLICY_FIELDS[field]
  if (level === 'pair') return pathText(['pairs', pairKey(originator, subagent), field])
  if (level === 'subagent') return pathText(['subagents', subagent, field])
  return level === 'global' ? pathText(['defaults', row.global ?? field]) : undefined
}
