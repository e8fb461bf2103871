import { z } from 'zod'
import { LIMITS } from './limits.js'

/** Strings, lists and records with a limit. The schemas use no others. */

const LONE_SURROGATE = 'has a lone surrogate, which UTF-8 cannot represent'

interface WellFormed {
  isWellFormed(): boolean
}

/** Returns false for text with lone surrogates. These have no UTF-8 and no RFC 8785 form, so computing a digest would throw. */
function wellFormed(text: string): boolean {
  return (text as unknown as WellFormed).isWellFormed()
}

/** Returns the first `max` UTF-16 code units of a text, or one less if the cut would split a surrogate pair. */
export function prefix(value: string, max: number): string {
  return value.length <= max ? value : value.slice(0, max).replace(/[\ud800-\udbff]$/, '')
}

/** A string of at most `max` UTF-16 code units. */
export function text(max: number) {
  return bounded(0, max)
}

/** A non-empty string of at most `max` UTF-16 code units. */
export function filled(max: number) {
  return bounded(1, max)
}

/** Combines three checks (min, max, well-formed) in one: strings are most of what is parsed on the hot path. */
function bounded(min: number, max: number) {
  return z
    .string()
    .check((payload) => {
      const { value } = payload
      if (value.length > max) {
        payload.issues.push({ code: 'too_big', origin: 'string', maximum: max, inclusive: true, input: value, continue: false })
      } else if (value.length < min) {
        payload.issues.push({ code: 'too_small', origin: 'string', minimum: min, inclusive: true, input: value, continue: false })
      } else if (!wellFormed(value)) {
        payload.issues.push({ code: 'custom', message: LONE_SURROGATE, input: value, continue: false })
      }
    })
    .meta(min > 0 ? { minLength: min, maxLength: max } : { maxLength: max })
}

/** Number of issues in one list after which its other elements are not validated: no reader needs a hundred thousand of them. */
const MAX_ISSUES = 20

/**
 * A list that is checked for its length before its elements, which are validated until there are enough issues. `rule` is an additional check of the
 * whole list: a check added from outside would lose both properties.
 */
export function list<T extends z.ZodType>(item: T, max: number, rule?: { holds: (list: z.output<T>[]) => boolean; message: string }) {
  const schema = rule ? z.array(item).max(max).refine(rule.holds, rule.message) : z.array(item).max(max)
  const { parse } = schema._zod
  schema._zod.parse = (payload, context) => {
    const input: unknown = payload.value
    if (!Array.isArray(input) || input.length > max || context.async || context.direction === 'backward') return parse(payload, context)
    return elements(item, { payload: payload as z.core.ParsePayload, input, context })
  }
  return schema
}

interface Elements {
  payload: z.core.ParsePayload
  input: unknown[]
  context: z.core.ParseContextInternal
}

/** Zod's own loop over a list, except that it ends after MAX_ISSUES. */
function elements<P>(item: z.ZodType, { payload, input, context }: Elements): P {
  const output: unknown[] = new Array(input.length)
  payload.value = output
  for (let i = 0; i < input.length && payload.issues.length < MAX_ISSUES; i++) {
    const result = item._zod.run({ value: input[i], issues: [] }, context) as z.core.ParsePayload
    output[i] = result.value
    if (result.issues.length > 0) payload.issues.push(...z.core.util.prefixIssues(i, result.issues))
  }
  return payload as P
}

/** Milliseconds since 1970. Fractions are kept, because some clocks have them. */
export const time = z.number().min(0).max(LIMITS.time)

/** A measured duration in milliseconds. */
export const span = z.number().min(0).max(LIMITS.time)

export const count = z.int().min(0)

/** Path of a file as its agent names it. The writer must check that it is inside the directory. */
export const filePath = filled(LIMITS.path).refine((path) => !path.includes('\0'), 'a path may not contain NUL')

/** A fault of a value, and the path of the field that has it. */
export interface FieldFault {
  path: PropertyKey[]
  why: string
}

/** An own key of this name would become a prototype at the first assignment, without readers noticing. */
export const PROTO = '__proto__'
const PROTO_REFUSED = 'this name is not allowed'

/** Parses JSON text. Throws the error of `refusal` if an object has the key {@link PROTO}, which would otherwise be dropped or become a prototype. */
export function parseJson(text: string, refusal: () => Error): unknown {
  // The key may also be written with an escape.
  if (!/__proto__|\\u00/.test(text)) return JSON.parse(text)
  return JSON.parse(text, (key: string, value: unknown) => {
    if (key === PROTO) throw refusal()
    return value
  })
}

/** Returns why a value is not acceptable JSON, or `undefined`. Stops at the limits, so it also ends on a cycle. */
export function jsonFault(value: unknown): FieldFault | undefined {
  if (value === null || typeof value === 'boolean') return undefined
  const budget = { nodes: LIMITS.nodes as number, characters: LIMITS.content as number }
  const found = fault(value, LIMITS.depth, budget)
  // A circular value exceeds the depth or the number of values.
  const exhausted = found && (found.why === TOO_DEEP || budget.nodes < 0)
  return exhausted ? (oddField(value) ?? here(found.why)) : found
}

const TOO_DEEP = `is nested more than ${LIMITS.depth} levels deep`

function fault(value: unknown, depth: number, budget: { nodes: number; characters: number }): FieldFault | undefined {
  budget.nodes -= 1
  if (budget.nodes < 0) return here(`has more than ${LIMITS.nodes} values`)
  if (typeof value === 'string') return textFault(value, budget)
  if (value === null || value === undefined || typeof value === 'boolean') return undefined
  if (typeof value === 'number') return Number.isFinite(value) ? undefined : here(`is ${value}, a number that JSON cannot represent`)
  if (typeof value !== 'object') return here(`is a ${typeof value}, which JSON cannot represent`)
  if (depth === 0) return here(TOO_DEEP)
  return isList(value) ? elementsFault(value, depth, budget) : membersFault(value, depth, budget)
}

function here(why: string): FieldFault {
  return { path: [], why }
}

/** Returns false for a revoked Proxy, on which even this check throws. */
function isList(value: object): value is unknown[] {
  try {
    return Array.isArray(value)
  } catch {
    return false
  }
}

function elementsFault(list: unknown[], depth: number, budget: { nodes: number; characters: number }): FieldFault | undefined {
  let at = 0
  try {
    for (; at < list.length; at++) {
      const element = list[at]
      if (element === undefined && !(at in list)) return { path: [at], why: 'is a hole in a sparse array, which JSON cannot represent' }
      const found = fault(element, depth - 1, budget)
      if (found) return under(at, found)
    }
  } catch (error) {
    return { path: [at], why: unreadable(error) }
  }
  return undefined
}

function membersFault(value: object, depth: number, budget: { nodes: number; characters: number }): FieldFault | undefined {
  let at: string | undefined
  try {
    const prototype = Object.getPrototypeOf(value)
    if (prototype !== Object.prototype && prototype !== null)
      return here(`is a ${nameOf(prototype)}, which JSON cannot represent: give text, a number or a plain object`)
    for (const key in value) {
      at = key
      if (key === PROTO) return { path: [key], why: PROTO_REFUSED }
      const wrongKey = textFault(key, budget)
      if (wrongKey) return here(`has a key that ${wrongKey.why}`)
      const found = fault((value as Record<string, unknown>)[key], depth - 1, budget)
      if (found) return under(key, found)
    }
  } catch (error) {
    return { path: at === undefined ? [] : [at], why: unreadable(error) }
  }
  return undefined
}

function nameOf(prototype: { constructor?: { name?: unknown } }): string {
  const name = prototype.constructor?.name
  return typeof name === 'string' && name !== '' ? name : 'object without a class'
}

function under(key: PropertyKey, found: FieldFault): FieldFault {
  found.path.unshift(key)
  return found
}

function textFault(value: string, budget: { characters: number }): FieldFault | undefined {
  budget.characters -= value.length
  if (budget.characters < 0) return here(`has more than ${LIMITS.content} characters`)
  return wellFormed(value) ? undefined : here(LONE_SURROGATE)
}

function unreadable(error: unknown): string {
  let why = ''
  try {
    why = error instanceof Error ? `: ${prefix(String(error.message), 200)}` : ''
  } catch {
    // Reading the thrown error may throw as well.
  }
  return `cannot be read, its getter or Proxy throws${why}`
}

/** Maximum number of objects that a search through any value visits. */
const MAX_SEARCHED = 200_000
const MAX_DEEP = 500

/**
 * Returns the first field of a value that is circular, or that throws when it is read (a getter, a Proxy). Visits each object once. Used for a value
 * that was refused or that caused an exception.
 */
export function oddField(whole: unknown): FieldFault | undefined {
  const above = new Set<object>()
  const seen = new Set<object>()
  const visit = (value: unknown): FieldFault | undefined => {
    if (typeof value !== 'object' || value === null) return undefined
    if (above.has(value)) return here('is circular: it refers back to an object that contains it')
    if (seen.has(value) || seen.size >= MAX_SEARCHED || above.size >= MAX_DEEP) return undefined
    seen.add(value)
    above.add(value)
    const found = visitMembers(value)
    above.delete(value)
    return found
  }
  const visitMembers = (value: object): FieldFault | undefined => {
    let at: string | undefined
    try {
      for (const key in value) {
        at = key
        const found = visit((value as Record<string, unknown>)[key])
        if (found) return under(key, found)
      }
    } catch (error) {
      return { path: at === undefined ? [] : [at], why: unreadable(error) }
    }
    return undefined
  }
  return visit(whole)
}

/** A JSON value of unknown shape, limited in depth, number of values and size. */
export const json = z.unknown().check(sayable)
/** Runs the check directly, without zod's loop over checks: a hostile object may have a thousand unknown keys. */
json._zod.run = (payload) => {
  sayable(payload)
  return payload
}

function sayable(payload: z.core.ParsePayload): void {
  const found = jsonFault(payload.value)
  if (found) payload.issues.push({ code: 'custom', message: found.why, path: found.path, input: payload.value, continue: false })
}

/** A record with values of unknown shape. */
export const jsonRecord = capKeys(z.record(z.string(), z.unknown()).check(sayable), LIMITS.keys)

/** A record that is checked for its number of keys before its members. */
export function record<K extends z.ZodString, V extends z.ZodType>(key: K, value: V, max: number) {
  return capKeys(z.record(key, value), max)
}

/** An object that keeps unknown fields, within the limits of `json`. */
export function open<S extends z.core.$ZodLooseShape>(shape: S) {
  return capKeys(z.object(shape).catchall(json), LIMITS.keys)
}

/** A configuration object. Unknown fields are refused as mistakes. */
export function strict<S extends z.core.$ZodLooseShape>(shape: S) {
  return capKeys(z.strictObject(shape), LIMITS.keys)
}

/**
 * Refuses an object with more than `max` keys before any of them is validated, and one with an own key `__proto__`, which zod would drop. Zod has a
 * limit for lists (`max`) but not for objects. Derived schemas (`extend`, `omit`, another check) are new objects and lose this check, so call
 * `capKeys` last.
 */
export function capKeys<T extends z.ZodType>(schema: T, max: number): T {
  const { run } = schema._zod
  schema._zod.run = (payload, context) => {
    const found = keysFault(payload.value, max)
    if (!found) return run(payload, context)
    const { why: message, path } = found
    const about = { message, path, input: payload.value, inst: schema, continue: false }
    payload.issues.push(path.length > 0 ? { code: 'custom', ...about } : { code: 'too_big', origin: 'object', maximum: max, ...about })
    return payload
  }
  return schema
}

function keysFault(value: unknown, max: number): FieldFault | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  let seen = 0
  for (const key in value) {
    if (++seen > max) return here(`has more than ${max} keys`)
    if (key === PROTO) return { path: [key], why: PROTO_REFUSED }
  }
  return undefined
}
