import { type PassOverPreferences, parsePairKey } from '@passover/schemas'
import { type PathSegment, type PolicyPlace, pathText, placeOf } from '../document-path.js'
import { formatValue, type PolicyFault } from '../parse-policy.js'

/** Helpers of the policy-check rules: conflicts between two places, and lookups in a document. */

export interface Conflict {
  severity: PolicyFault['severity']
  first: PolicyPlace
  second?: PolicyPlace | undefined
  /** Describes the conflict: "can never be reached". */
  why: string
  suggestion: string
}

export function conflict({ severity, first, second, why, suggestion }: Conflict): PolicyFault {
  const places = second ? [first, second] : [first]
  const said = places.map(({ path, value }) => (value === undefined ? path : `${path} is ${formatValue(value)}`)).join(' and ')
  const message = `${said}: ${why}`
  return { code: 'E031', severity, message, path: first.path, places, found: formatValue(first.value), expected: why, suggestion }
}

/** An entry of a document with its path. */
export interface Entry<T> {
  at: PathSegment[]
  name: string
  value: T
}

export type PairEntry = Entry<NonNullable<PassOverPreferences['pairs']>[string]> & { from: string; to: string }
export type SubagentEntry = Entry<NonNullable<PassOverPreferences['subagents']>[string]>

export function pairEntries({ pairs = {} }: PassOverPreferences): PairEntry[] {
  return Object.entries(pairs).flatMap(([name, value]) => {
    const names = parsePairKey(name)
    return names ? [{ at: ['pairs', name], name, value, ...names }] : []
  })
}

export function subagentEntries({ subagents = {} }: PassOverPreferences): SubagentEntry[] {
  return Object.entries(subagents).map(([name, value]) => ({ at: ['subagents', name], name, value }))
}

/** Returns the place of a field of an entry, or `undefined` if the entry does not set it. */
export function said(entry: Pick<Entry<object>, 'at' | 'value'> | undefined, field: string): PolicyPlace | undefined {
  if (!entry || !Object.hasOwn(entry.value, field)) return undefined
  const value = (entry.value as Record<string, unknown>)[field]
  return value === undefined ? undefined : placeOf([...entry.at, field], value)
}

/** Returns the place in the first entry that sets the field, or the system default. */
export function firstSaid(
  field: string,
  entries: readonly (Pick<Entry<object>, 'at' | 'value'> | undefined)[],
  system: unknown,
): PolicyPlace {
  for (const entry of entries) {
    const place = said(entry, field)
    if (place) return place
  }
  return { level: 'system', path: `the system's ${field}`, value: system }
}

/** Returns the global defaults as an entry. */
export function defaultsOf({ defaults = {} }: PassOverPreferences): Entry<object> {
  return { at: ['defaults'], name: 'defaults', value: defaults }
}

/** Returns the entry of the subagent that a pair leads to. */
export function towards(document: PassOverPreferences, { to }: Pick<PairEntry, 'to'>): SubagentEntry | undefined {
  const { subagents } = document
  if (!subagents || !Object.hasOwn(subagents, to)) return undefined
  const value = subagents[to]
  return value && { at: ['subagents', to], name: to, value }
}

/** Returns the place of a whole entry. */
export function entryPlace({ at }: Pick<Entry<object>, 'at'>): PolicyPlace {
  return { ...placeOf(at, undefined), path: pathText(at) }
}
