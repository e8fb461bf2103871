import fc from 'fast-check'

type Schema = Record<string, unknown>

/** Words of which at least one fits each pattern of our documents. */
const WORDS = ['alice', 'audit', 'pass-0000001', '"1"', '7', 'x']
const MOST_DEPTH = 4

/** Values that a JSON Schema takes, as far as our documents use it; `resolve` follows a $ref. */
export function arbitraryOf(schema: Schema, resolve: (ref: string) => Schema, depth = 0): fc.Arbitrary<unknown> {
  const below = (one: unknown) => arbitraryOf(one as Schema, resolve, depth + 1)
  if (typeof schema.$ref === 'string') return arbitraryOf(resolve(schema.$ref), resolve, depth)
  const choices = (schema.anyOf ?? schema.oneOf) as Schema[] | undefined
  if (choices) return fc.oneof(...choices.map(below))
  if ('const' in schema) return fc.constant(schema.const)
  if (Array.isArray(schema.enum)) return fc.constantFrom(...schema.enum)
  switch (schema.type) {
    case 'string':
      return textOf(schema)
    case 'integer':
      return fc.integer(rangeOf(schema))
    case 'number':
      return fc.integer(rangeOf(schema))
    case 'boolean':
      return fc.boolean()
    case 'null':
      return fc.constant(null)
    case 'array':
      return depth >= MOST_DEPTH
        ? fc.constant([])
        : fc.array(below(schema.items ?? {}), { minLength: Number(schema.minItems ?? 0), maxLength: 2 })
    case 'object':
      return objectOf(schema, depth >= MOST_DEPTH, below)
    default:
      return fc.constantFrom('anything', 7, true)
  }
}

function textOf({ pattern, minLength = 0, maxLength = 40 }: Schema): fc.Arbitrary<string> {
  if (typeof pattern !== 'string') return fc.string({ minLength: Number(minLength), maxLength: Math.min(Number(maxLength), 40) })
  const fitting = WORDS.filter((word) => new RegExp(pattern).test(word))
  return fc.constantFrom(...(fitting.length > 0 ? fitting : WORDS))
}

function rangeOf({ minimum, exclusiveMinimum, maximum, exclusiveMaximum }: Schema): { min: number; max: number } {
  const min = Number(minimum ?? (exclusiveMinimum === undefined ? 0 : Number(exclusiveMinimum) + 1))
  const max = Number(maximum ?? (exclusiveMaximum === undefined ? min + 1_000 : Number(exclusiveMaximum) - 1))
  return { min: Math.ceil(min), max: Math.max(Math.ceil(min), Math.min(Math.floor(max), Math.ceil(min) + 1_000_000)) }
}

function objectOf({ properties = {}, required = [] }: Schema, full: boolean, below: (one: unknown) => fc.Arbitrary<unknown>) {
  const names = required as string[]
  const members = Object.entries(properties as Record<string, Schema>).filter(([name]) => !full || names.includes(name))
  return fc.record(Object.fromEntries(members.map(([name, one]) => [name, below(one)])), {
    requiredKeys: names.filter((name) => name in (properties as object)),
  })
}
