import { z } from 'zod'
import { LIMITS } from './limits.js'

/** Strings, lists and records with a limit: the only ones that the schemas are made of. */

const LONE_SURROGATE = 'has a lone surrogate, which no UTF-8 can say'

interface WellFormed {
  isWellFormed(): boolean
}

/** Lone surrogates have no UTF-8 and no RFC 8785 form, so a digest over them would throw. */
function wellFormed(text: string): boolean {
  return (text as unknown as WellFormed).isWellFormed()
}

/** Returns the first `max` UTF-16 code units of a text, one less where that would split a surrogate pair. */
export function prefix(value: string, max: number): string {
  return value.length <= max ? value : value.slice(0, max).replace(/[\ud800-\udbff]$/, '')
}

/** A string of at most `max` UTF-16 units. */
export function text(max: number) {
  return bounded(0, max)
}

/** A string that says something. */
export function filled(max: number) {
  return bounded(1, max)
}

/** One check in place of three (min, max, well-formed): strings are most of what is parsed on the hot path. */
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

/** Issues of one list after which no more of its elements are looked at: nobody reads a hundred thousand of them. */
const MOST_ISSUES = 20

/**
 * A list whose length is looked at before its elements are, and whose elements are looked at until there are enough
 * issues. `rule` is a further check of the whole: a check that is added from outside would lose both.
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

/** Zod's own loop over a list, but that it ends after MOST_ISSUES. */
function elements<P>(item: z.ZodType, { payload, input, context }: Elements): P {
  const output: unknown[] = new Array(input.length)
  payload.value = output
  for (let i = 0; i < input.length && payload.issues.length < MOST_ISSUES; i++) {
    const result = item._zod.run({ value: input[i], issues: [] }, context) as z.core.ParsePayload
    output[i] = result.value
    if (result.issues.length > 0) payload.issues.push(...z.core.util.prefixIssues(i, result.issues))
  }
  return payload as P
}

/** Milliseconds since 1970. Fractions are kept: some clocks have them. */
export const time = z.number().min(0).max(LIMITS.time)

/** A span of milliseconds that was measured. */
export const span = z.number().min(0).max(LIMITS.time)

export const count = z.int().min(0)

/** Path of a file as its agent names it. Whether it lies inside a directory is for those who write there. */
export const filePath = filled(LIMITS.path).refine((path) => !path.includes('\0'), 'a path has no NUL')

/** Why a value is not acceptable JSON, or undefined. Walks no more than the limits allow, so a cycle ends too. */
export function jsonFault(value: unknown, depth: number = LIMITS.depth): string | undefined {
  if (value === null || typeof value === 'boolean') return undefined
  const budget = { nodes: LIMITS.nodes as number, characters: LIMITS.content as number }
  return fault(value, depth, budget)
}

function fault(value: unknown, depth: number, budget: { nodes: number; characters: number }): string | undefined {
  budget.nodes -= 1
  if (budget.nodes < 0) return `has more than ${LIMITS.nodes} values`
  if (typeof value === 'string') return textFault(value, budget)
  if (value === null || value === undefined || typeof value === 'boolean') return undefined
  if (typeof value === 'number') return Number.isFinite(value) ? undefined : 'has a number that JSON cannot say'
  if (typeof value !== 'object') return `has a ${typeof value}, which JSON cannot say`
  if (depth === 0) return `is nested more than ${LIMITS.depth} deep`
  if (Array.isArray(value)) {
    for (let i = 0; i < value.length; i++) {
      const why = fault(value[i], depth - 1, budget)
      if (why) return why
    }
    return undefined
  }
  return membersFault(value, depth, budget)
}

function membersFault(value: object, depth: number, budget: { nodes: number; characters: number }): string | undefined {
  const prototype = Object.getPrototypeOf(value)
  if (prototype !== Object.prototype && prototype !== null) return `has a ${prototype.constructor?.name ?? 'object'}, which JSON cannot say`
  for (const key in value) {
    const why = textFault(key, budget) ?? fault((value as Record<string, unknown>)[key], depth - 1, budget)
    if (why) return why
  }
  return undefined
}

function textFault(value: string, budget: { characters: number }): string | undefined {
  budget.characters -= value.length
  if (budget.characters < 0) return `has more than ${LIMITS.content} characters`
  return wellFormed(value) ? undefined : LONE_SURROGATE
}

/** A value of unknown shape, bounded in depth, number and size. */
export const json = z.unknown().check(sayable)
/** Run as it is, without zod's loop over checks: a hostile object has a thousand unknown keys. */
json._zod.run = (payload) => {
  sayable(payload)
  return payload
}

function sayable(payload: z.core.ParsePayload): void {
  const why = jsonFault(payload.value)
  if (why) payload.issues.push({ code: 'custom', message: why, input: payload.value, continue: false })
}

/** A record with values of unknown shape. */
export const jsonRecord = capKeys(z.record(z.string(), z.unknown()).check(sayable), LIMITS.keys)

/** A record whose number of keys is looked at before its members are. */
export function record<K extends z.ZodString, V extends z.ZodType>(key: K, value: V, max: number) {
  return capKeys(z.record(key, value), max)
}

/** An object of ours that keeps what it does not know, within the limits of `json`. */
export function open<S extends z.core.$ZodLooseShape>(shape: S) {
  return capKeys(z.object(shape).catchall(json), LIMITS.keys)
}

/** An object of configuration: what it does not know is a mistake of whoever wrote it. */
export function strict<S extends z.core.$ZodLooseShape>(shape: S) {
  return capKeys(z.strictObject(shape), LIMITS.keys)
}

/**
 * Refuses an object with more than `max` keys before any of them is looked at. Zod has this for lists (`max`), not for
 * objects. Derived schemas (`extend`, `omit`, a further check) are made anew and so lose it: cap last.
 */
export function capKeys<T extends z.ZodType>(schema: T, max: number): T {
  const { run } = schema._zod
  schema._zod.run = (payload, context) => {
    if (!exceeds(payload.value, max)) return run(payload, context)
    payload.issues.push({ code: 'custom', message: `has more than ${max} keys`, input: payload.value, inst: schema, continue: false })
    return payload
  }
  return schema
}

function exceeds(value: unknown, max: number): boolean {
  if (typeof value !== 'object' || value === null) return false
  let seen = 0
  for (const _ in value) if (++seen > max) return true
  return false
}
