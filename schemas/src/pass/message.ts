import { z } from 'zod'
import { PROTO } from '../base/bounded-types.js'
import { LIMITS } from '../base/limits.js'

type Run = z.ZodType['_zod']['run']

/**
 * Wraps the schema of a structure that is received as one message. Refuses a value with more than LIMITS.values values in total, before any of them
 * is validated. Otherwise validates mostly with code that zod compiles from the schema at the first use. Derived schemas lose both.
 */
export function message<T extends z.ZodType>(schema: T): T {
  return compiled(schema, (payload) => {
    const why = `has more than ${LIMITS.values} values`
    payload.issues.push({ code: 'too_big', origin: 'array', maximum: LIMITS.values, message: why, input: payload.value, inst: schema })
    return payload
  })
}

/**
 * Number of reads before a schema is compiled. Compiling a large schema takes tens of ms, which a command that requests a single pass should not wait
 * for.
 */
const RARE = 100

/**
 * Wraps the schema of a structure that a process creates itself for every pass: compiled after the first {@link RARE} reads. Derived schemas lose
 * this.
 */
export function frequent<T extends z.ZodType>(schema: T): T {
  return compiled(schema, schema._zod.run, RARE)
}

function compiled<T extends z.ZodType>(schema: T, tooMany: Run, rare = 0): T {
  const { run } = schema._zod
  let made: Run | undefined
  let reads = 0
  const guarded: Run = (payload, context) => {
    const extent = extentOf(payload.value)
    if (extent === 'too many') return tooMany(payload, context)
    if (extent === 'large' || (made === undefined && reads++ < rare)) return run(payload, context)
    made ??= compile()
    return made(payload, context)
  }
  /**
   * Compiles the schema. Values that the compiled code refuses are validated again by `run`, which reports why. If code generation is not permitted,
   * zod returns the schema itself.
   */
  const compile = () => {
    schema._zod.run = run
    const { run: swift } = z.compile(schema)._zod
    schema._zod.run = guarded
    return swift
  }
  schema._zod.run = guarded
  return schema
}

/** Number of values above which the compiled code is slower: it is one large function that is never optimized for rare messages. */
const MAX_COMPILED = 10_000

/** `large` is not validated by the compiled code, which neither counts an object's keys nor refuses `__proto__`. */
type Extent = 'small' | 'large' | 'too many'

function extentOf(message: unknown): Extent {
  let values = 1
  let wide = false
  const waiting: unknown[] = typeof message === 'object' && message !== null ? [message] : []
  for (let value = waiting.pop(); value !== undefined; value = waiting.pop()) {
    if (Array.isArray(value)) {
      values += value.length
      if (values > LIMITS.values) return 'too many'
      for (const element of value) if (typeof element === 'object' && element !== null) waiting.push(element)
      continue
    }
    if (value instanceof Uint8Array) continue
    let keys = 0
    for (const key in value as object) {
      if (++keys + values > LIMITS.values) return 'too many'
      if (key === PROTO) wide = true
      const member = (value as Record<string, unknown>)[key]
      if (typeof member === 'object' && member !== null) waiting.push(member)
    }
    values += keys
    wide ||= keys > LIMITS.keys
  }
  return wide || values > MAX_COMPILED ? 'large' : 'small'
}
