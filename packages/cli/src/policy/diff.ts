import { formatValue, isBody, type PathSegment, pathText } from '@passover/core'
import type { PassOverPreferences } from '@passover/schemas'

/** A setting that differs between two documents; `undefined` on a side that lacks it. */
export interface Difference {
  path: string
  at: PathSegment[]
  before: unknown
  after: unknown
}

/** Fields that repeat the key of their entry, or are only for editors. */
const IMPLIED = new Set(['from', 'to', 'subagent_id', '$schema'])

/** Returns every setting that differs, in document order. An entry that one side lacks is one difference. */
export function diffPolicies(before: PassOverPreferences, after: PassOverPreferences): Difference[] {
  return differing([], before, after)
}

function differing(at: PathSegment[], before: unknown, after: unknown): Difference[] {
  if (isBody(before) && isBody(after)) {
    const keys = [...new Set([...Object.keys(before), ...Object.keys(after)])].filter((key) => !IMPLIED.has(key))
    return keys.flatMap((key) => differing([...at, key], own(before, key), own(after, key)))
  }
  if (JSON.stringify(withoutImplied(before)) === JSON.stringify(withoutImplied(after))) return []
  // An empty section equals a missing one.
  if (at.length === 1 && isEmpty(before) && isEmpty(after)) return []
  return [{ path: pathText(at), at, before: withoutImplied(before), after: withoutImplied(after) }]
}

function own(record: Record<string, unknown>, key: string): unknown {
  return Object.hasOwn(record, key) ? record[key] : undefined
}

function isEmpty(value: unknown): boolean {
  return value === undefined || (isBody(value) && Object.keys(value).length === 0)
}

/** Removes the implied fields, which a person does not write into a file. */
export function withoutImplied(value: unknown): unknown {
  if (!isBody(value)) return value
  return Object.fromEntries(Object.entries(value).flatMap(([key, one]) => (IMPLIED.has(key) ? [] : [[key, withoutImplied(one)]])))
}

/** Formats a difference as one line. */
export function describeDifference({ path, before, after }: Difference): string {
  if (before === undefined) return `+ ${path} ${formatValue(after)}`
  return after === undefined ? `- ${path} ${formatValue(before)}` : `~ ${path} ${formatValue(before)} → ${formatValue(after)}`
}

const NAMED = 2

/** Formats all differences as one line: the first two, and the number of others. */
export function summarizeDifferences(all: Difference[]): string {
  if (all.length === 0) return 'nothing'
  const named = all.slice(0, NAMED).map((one) => describeDifference({ ...one, path: one.path.replace(/^\$\./, '') }))
  const more = all.length - named.length
  return `${named.join('; ')}${more > 0 ? `; and ${more} more` : ''}`
}
