import { z } from 'zod'
import { LIMITS } from './limits.js'

/**
 * A structure that comes from others as one message. It is refused where it has more values in all than LIMITS.values,
 * before any of them is checked; and mostly it is read by code that zod compiles from the schema at its first use.
 * Derived schemas lose both.
 */
export function message<T extends z.ZodType>(schema: T): T {
  const { run } = schema._zod
  let compiled: typeof run | undefined
  const guarded: typeof run = (payload, context) => {
    const extent = extentOf(payload.value)
    if (extent === 'too many') {
      const why = `has more than ${LIMITS.values} values`
      payload.issues.push({ code: 'too_big', origin: 'array', maximum: LIMITS.values, message: why, input: payload.value, inst: schema })
      return payload
    }
    if (extent === 'large') return run(payload, context)
    compiled ??= compile()
    return compiled(payload, context)
  }
  /** What the compiled code refuses is read again by `run`, which says why. Without leave to make code zod gives the schema itself. */
  const compile = () => {
    schema._zod.run = run
    const made = z.compile(schema)._zod.run
    schema._zod.run = guarded
    return made
  }
  schema._zod.run = guarded
  return schema
}

/** Beyond these the compiled code, one large function that never gets warm on rare messages, is the slower one. */
const MOST_COMPILED = 10_000

/** `large`: not for the compiled code, which does not count an object's keys either. */
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
      const member = (value as Record<string, unknown>)[key]
      if (typeof member === 'object' && member !== null) waiting.push(member)
    }
    values += keys
    wide ||= keys > LIMITS.keys
  }
  return wide || values > MOST_COMPILED ? 'large' : 'small'
}
