import {
  agentPairPreference,
  auditPreference,
  budget,
  type PassOverPreferences,
  PROTO,
  parsePairKey,
  passOverPreferences,
  policyDefaults,
  subagentPreference,
} from '@passover/schemas'
import { isBody } from '../codec/output-codec.js'
import { cut } from '../text/index.js'
import { levelOf, type PathSegment, type PolicyPlace, pathText, placeOf, valueAt } from './document-path.js'
import { POLICY_FIELDS, type PolicyField, type PolicyLevel } from './fields.js'
import { closestMatch, describeExpected, suggestRewrite } from './suggestions.js'

/** One fault in a policy document, described for the person who will fix it. */
export interface PolicyFault {
  code: 'E030' | 'E031'
  severity: 'error' | 'warning'
  /** One sentence that names the place. */
  message: string
  /** JSON path of the first place. */
  path: string
  /** Place of the fault; for two conflicting settings, both places. */
  places: PolicyPlace[]
  /** The value at the place, as shortened JSON. */
  found: string
  expected: string
  suggestion?: string
}

export type ReadPolicy = { ok: true; document: PassOverPreferences } | { ok: false; faults: PolicyFault[] }

/** Validates a policy document. Returns the document, or all faults in its form at once (E030, E031). */
export function readPolicy(value: unknown): ReadPolicy {
  const parsed = passOverPreferences.safeParse(value)
  if (parsed.success) return { ok: true, document: parsed.data }
  const issues = boundedIssues(parsed.error.issues, value)
  const faults = [...keyFaults(value), ...nameFaults(value), ...issues.flatMap((issue) => faultsOf(issue, value))]
  const seen = new Set<string>()
  return { ok: false, faults: faults.filter(({ path }) => !seen.has(path) && seen.add(path)) }
}

/**
 * For a number that no integer can hold (1e300, 1e999) the schema reports only that. Replaces such issues with those for the largest integer, which
 * name the limit of the field.
 */
function boundedIssues(issues: Issue[], value: unknown): Issue[] {
  if (!issues.some((issue) => isBeyond(valueAt(value, issue.path as PathSegment[])))) return issues
  const { error } = passOverPreferences.safeParse(withinIntegers(value))
  const byPath = new Map(error?.issues.map((issue) => [pathText(issue.path as PathSegment[]), issue]))
  return issues.map(
    (issue) => (isBeyond(valueAt(value, issue.path as PathSegment[])) && byPath.get(pathText(issue.path as PathSegment[]))) || issue,
  )
}

function isBeyond(value: unknown): value is number {
  return typeof value === 'number' && Math.abs(value) > Number.MAX_SAFE_INTEGER
}

function withinIntegers(value: unknown): unknown {
  if (isBeyond(value)) return Math.sign(value) * Number.MAX_SAFE_INTEGER
  if (Array.isArray(value)) return value.map(withinIntegers)
  return isBody(value) ? Object.fromEntries(Object.entries(value).map(([key, member]) => [key, withinIntegers(member)])) : value
}

type Issue = Extract<ReturnType<typeof passOverPreferences.safeParse>, { success: false }>['error']['issues'][number]

function faultsOf(issue: Issue, value: unknown): PolicyFault[] {
  const at = issue.path as PathSegment[]
  if (issue.code === 'unrecognized_keys') return issue.keys.map((key) => unknownKey([...at, key], value))
  const level = levelOf(at)
  const name = at.at(-1)
  if (name === PROTO) return [protoFault(at, value)]
  if (issue.code === 'too_big' && level && (name === 'approval_expires_ms' || name === 'timeout_ms' || name === 'max_timeout_ms')) {
    const bound = placeOf(undefined, Number(issue.maximum))
    return [fault({ code: 'E031', at, value, expected: `at most ${issue.maximum}, the upper limit of the system`, other: bound })]
  }
  const found = valueAt(value, at)
  const suggestion = suggestRewrite(found, name) ?? ('values' in issue ? closestMatch(found, issue.values as unknown[]) : undefined)
  return [fault({ code: 'E030', at, value, expected: describeExpected(issue), suggestion: suggestion && `did you mean ${suggestion}?` })]
}

function protoFault(at: PathSegment[], value: unknown): PolicyFault {
  const place = placeOf(at, valueAt(value, at))
  const { path } = place
  const message = `${path}: this name is not allowed`
  return { code: 'E030', severity: 'error', message, path, places: [place], found: formatValue(place.value), expected: 'use another name' }
}

interface Found {
  code: PolicyFault['code']
  at: PathSegment[]
  /** The whole document. */
  value: unknown
  expected: string
  suggestion?: string | undefined
  other?: PolicyPlace
}

function fault({ code, at, value, expected, suggestion, other }: Found): PolicyFault {
  const place = placeOf(at, valueAt(value, at))
  const found = formatValue(place.value)
  const { path } = place
  const message = `${path} is ${found}, expected ${expected}`
  const places = other ? [place, other] : [place]
  return { code, severity: 'error', message, path, places, found, expected, ...(suggestion ? { suggestion } : {}) }
}

const LONGEST = 80
const ENTRIES_SHOWN = 100

export function formatValue(value: unknown): string {
  // JSON would print null.
  if (typeof value === 'number' && !Number.isFinite(value)) return value < 0 ? 'a number below -1e308' : 'a number above 1e308'
  if (isBody(value) && Object.keys(value).length > ENTRIES_SHOWN) return `an object with ${Object.keys(value).length} entries`
  const text = JSON.stringify(value) ?? 'nothing'
  return cut(text, LONGEST)
}

/** Reports an unknown key. If the key is valid at other levels, all places are named. */
function unknownKey(at: PathSegment[], value: unknown): PolicyFault {
  const key = String(at.at(-1))
  const place = placeOf(at, valueAt(value, at))
  const level = levelOf(at)
  const common = { path: place.path, found: JSON.stringify(key), severity: 'error' as const }
  const elsewhere = level ? levelsOf(key) : []
  if (level && elsewhere.length > 0) {
    const expected = `${key} belongs ${elsewhere.map((one) => WHERE[one]).join(' or ')}`
    const others = elsewhere.map((one) => ({ level: one, path: EXAMPLE[one](key), value: undefined }))
    const message = `${place.path} is not allowed ${WHERE[level]}: ${expected}`
    const suggestion =
      key === 'require_user_approval' && level === 'global' ? 'in the defaults it is called require_confirmation' : undefined
    return { ...common, code: 'E031', message, expected, places: [place, ...others], ...(suggestion ? { suggestion } : {}) }
  }
  const known = keysAt(at.slice(0, -1))
  const close = closestMatch(key, known)
  const expected = `one of: ${known.join(', ')}`
  const message = `${place.path}: there is no setting ${JSON.stringify(key)} here`
  return { ...common, code: 'E030', message, expected, places: [place], ...(close ? { suggestion: `did you mean ${close}?` } : {}) }
}

const WHERE: Record<PolicyLevel, string> = {
  override: 'in a request’s override',
  pair: 'in a pair',
  subagent: 'in a subagent’s entry',
  global: 'in the defaults',
}
const EXAMPLE: Record<PolicyLevel, (key: string) => string> = {
  override: (key) => `override.${key}`,
  pair: (key) => `$.pairs[*].${key}`,
  subagent: (key) => `$.subagents[*].${key}`,
  global: (key) => `$.defaults.${key}`,
}

/** Returns the levels of a document at which a setting of this name is allowed. */
function levelsOf(key: string): PolicyLevel[] {
  const field: PolicyField | undefined = Object.hasOwn(POLICY_FIELDS, key) ? POLICY_FIELDS[key as keyof typeof POLICY_FIELDS] : undefined
  if (key === 'require_confirmation') return ['global']
  return (field?.levels ?? []).filter((level) => level !== 'override' && !(level === 'global' && field?.global))
}

/** Returns the keys that are allowed in the object at a path. */
function keysAt(at: PathSegment[]): string[] {
  if (at.at(-1) === 'budget') return Object.keys(budget.shape)
  const [section] = at
  if (at.length === 0) return Object.keys(passOverPreferences.shape)
  if (section === 'defaults') return Object.keys(policyDefaults.shape)
  if (section === 'pairs') return Object.keys(agentPairPreference.shape)
  return Object.keys(section === 'subagents' ? subagentPreference.shape : auditPreference.shape)
}

/** Reports malformed keys of pairs. Zod checks these keys only if everything inside the pairs is valid, but all faults should be reported at once. */
function keyFaults(value: unknown): PolicyFault[] {
  const pairs = isBody(value) && isBody(value.pairs) ? value.pairs : {}
  const expected = '"originator->subagent", two names without spaces'
  const wrong = Object.keys(pairs).filter((key) => key !== PROTO && !parsePairKey(key))
  return wrong.map((key) => {
    const place = placeOf(['pairs', key], pairs[key])
    const mended = key.replace(/\s+/g, '').replace(/^([^-=>]+)(?:=>|-->|→|>|:|,)([^-=>]+)$/, '$1->$2')
    const suggestion = mended !== key && parsePairKey(mended) ? { suggestion: `did you mean ${JSON.stringify(mended)}?` } : {}
    const message = `${pathText(['pairs', key])}: the key is not ${expected}`
    return {
      code: 'E030',
      severity: 'error',
      message,
      path: place.path,
      places: [place],
      found: formatValue(pairs[key]),
      expected,
      ...suggestion,
    }
  })
}

/** Reports entries whose names differ from their key. Zod skips this check too while there are other faults. */
function nameFaults(value: unknown): PolicyFault[] {
  const entries = (section: 'pairs' | 'subagents') => Object.entries(isBody(value) && isBody(value[section]) ? value[section] : {})
  const differing = (at: PathSegment[], wanted: string): PolicyFault[] => {
    const said = valueAt(value, at)
    if (typeof said !== 'string' || said === wanted) return []
    return [
      fault({ code: 'E031', at, value, expected: `${JSON.stringify(wanted)}, as its key says`, other: placeOf(at.slice(0, 2), undefined) }),
    ]
  }
  return [
    ...entries('pairs').flatMap(([key]) => {
      const names = parsePairKey(key)
      return names ? [...differing(['pairs', key, 'from'], names.from), ...differing(['pairs', key, 'to'], names.to)] : []
    }),
    ...entries('subagents').flatMap(([key]) => differing(['subagents', key, 'subagent_id'], key)),
  ]
}
