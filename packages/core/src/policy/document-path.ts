import type { Level } from './base-policy.js'
import type { PolicyLevel } from './fields.js'

export type PathSegment = string | number

/** Where something is said, for a person: a level, and in a document its JSON path. */
export interface PolicyPlace {
  level?: Level | undefined
  /** `$.pairs["alice->audit"].timeout_ms`, or in words where it stands in no document. */
  path: string
  /** The same in parts, where it stands in the document. */
  at?: PathSegment[] | undefined
  value: unknown
}

const WORD = /^[A-Za-z_$][\w$]*$/

/** A JSON path (RFC 9535). */
export function pathText(at: readonly PathSegment[]): string {
  return at.reduce<string>((text, one) => {
    if (typeof one === 'number') return `${text}[${one}]`
    return WORD.test(one) ? `${text}.${one}` : `${text}[${JSON.stringify(one)}]`
  }, '$')
}

/** The level that a place in a document belongs to. */
export function levelOf(at: readonly PathSegment[]): Exclude<PolicyLevel, 'override'> | undefined {
  if (at[0] === 'defaults') return 'global'
  if (at.length < 2) return undefined
  return at[0] === 'pairs' ? 'pair' : at[0] === 'subagents' ? 'subagent' : undefined
}

/** `at` undefined: the system's own. */
export function placeOf(at: PathSegment[] | undefined, value: unknown): PolicyPlace {
  return at ? { level: levelOf(at), path: pathText(at), at, value } : { level: 'system', path: 'the system', value }
}

/** What stands at a place. */
export function valueAt(value: unknown, at: readonly PathSegment[]): unknown {
  let here: unknown = value
  for (const one of at) {
    if (typeof here !== 'object' || here === null || !Object.hasOwn(here, one)) return undefined
    here = (here as Record<PathSegment, unknown>)[one]
  }
  return here
}
