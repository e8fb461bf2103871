import type { Level } from './base-policy.js'
import type { PolicyLevel } from './fields.js'

export type PathSegment = string | number

/** Place at which a value is set, for display: a level, and in a document its JSON path. */
export interface PolicyPlace {
  level?: Level | undefined
  /** `$.pairs["alice->audit"].timeout_ms`, or a description if the value is not in a document. */
  path: string
  /** The path as segments, if the value is in the document. */
  at?: PathSegment[] | undefined
  value: unknown
}

const WORD = /^[A-Za-z_$][\w$]*$/

/** Formats a JSON path (RFC 9535). */
export function pathText(at: readonly PathSegment[]): string {
  return at.reduce<string>((text, one) => {
    if (typeof one === 'number') return `${text}[${one}]`
    return WORD.test(one) ? `${text}.${one}` : `${text}[${JSON.stringify(one)}]`
  }, '$')
}

/** Returns the level that a path in a document belongs to. */
export function levelOf(at: readonly PathSegment[]): Exclude<PolicyLevel, 'override'> | undefined {
  if (at[0] === 'defaults') return 'global'
  if (at.length < 2) return undefined
  return at[0] === 'pairs' ? 'pair' : at[0] === 'subagents' ? 'subagent' : undefined
}

/** Returns the place of a value. `at` is `undefined` for a system default. */
export function placeOf(at: PathSegment[] | undefined, value: unknown): PolicyPlace {
  return at ? { level: levelOf(at), path: pathText(at), at, value } : { level: 'system', path: 'the system', value }
}

/** Returns the value at a path. */
export function valueAt(value: unknown, at: readonly PathSegment[]): unknown {
  let here: unknown = value
  for (const one of at) {
    if (typeof here !== 'object' || here === null || !Object.hasOwn(here, one)) return undefined
    here = (here as Record<PathSegment, unknown>)[one]
  }
  return here
}
