import { formatValue, isBody, type PathSegment, pathText } from '@passover/core'
import type { PassOverPreferences } from '@passover/schemas'

/** One setting that two documents say differently; undefined: not at all. */
export interface Difference {
  path: string
  at: PathSegment[]
  before: unknown
  after: unknown
}

/** What an entry's key says already, and what is for editors. */
const IMPLIED = new Set(['from', 'to', 'subagent_id', '$schema'])

/** Every setting that differs, in the order of the documents. Whole entries stay whole where one side has none. */
export function diffPolicies(before: PassOverPreferences, after: PassOverPreferences): Difference[] {
  return differing([], before, after)
}

function differing(at: PathSegment[], before: unknown, after: unknown): Difference[] {
  if (isBody(before) && isBody(after)) {
    const keys = [...new Set([...Object.keys(before), ...Object.keys(after)])].filter((key) => !IMPLIED.has(key))
    return keys.flatMap((key) => differing([...at, key], own(before, key), own(after, key)))
  }
  if (JSON.stringify(withoutImplied(before)) === JSON.stringify(withoutImplied(after))) return []
  // An empty section says nothing.
  if (at.length === 1 && isEmpty(before) && isEmpty(after)) return []
  return [{ path: pathText(at), at, before: withoutImplied(before), after: withoutImplied(after) }]
}

function own(record: Record<string, unknown>, key: string): unknown {
  return Object.hasOwn(record, key) ? record[key] : undefined
}

function isEmpty(value: unknown): boolean {
  return value === undefined || (isBody(value) && Object.keys(value).length === 0)
}

/** A value without what is implied: as a person writes it into a file. */
export function withoutImplied(value: unknown): unknown {
  if (!isBody(value)) return value
  return Object.fromEntries(Object.entries(value).flatMap(([key, one]) => (IMPLIED.has(key) ? [] : [[key, withoutImplied(one)]])))
}

/** A difference in a line. */
export function describeDifference({ path, before, after }: Difference): string {
  if (before === undefined) return `+ ${path} ${formatValue(after)}`
  return after === undefined ? `- ${path} ${formatValue(before)}` : `~ ${path} ${formatValue(before)} → ${formatValue(after)}`
}

const NAMED = 2

/** All of them in one line: the first ones, and how many more. */
export function summarizeDifferences(all: Difference[]): string {
  if (all.length === 0) return 'nothing'
  const named = all.slice(0, NAMED).map((one) => describeDifference({ ...one, path: one.path.replace(/^\$\./, '') }))
  const more = all.length - named.length
  return `${named.join('; ')}${more > 0 ? `; and ${more} more` : ''}`
}
