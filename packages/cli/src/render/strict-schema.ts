import { z } from 'zod'

/**
 * Returns a schema that rejects every field that the given one does not name, at any depth. The given schemas strip or keep unknown fields, because
 * they also read what newer versions wrote; a document that this version prints has no unknown fields. An object without named fields stays open.
 */
export function strictSchema(schema: z.ZodType, known = new Map<z.ZodType, z.ZodType>()): z.ZodType {
  const made = known.get(schema)
  if (made) return made
  const inner = (one: unknown) => strictSchema(one as z.ZodType, known)
  const strict = rebuilt(schema, inner)
  known.set(schema, strict)
  return strict
}

function rebuilt(schema: z.ZodType, inner: (one: unknown) => z.ZodType): z.ZodType {
  if (schema instanceof z.ZodObject) {
    const shape = Object.fromEntries(Object.entries(schema.shape).map(([name, field]) => [name, inner(field)]))
    return Object.keys(shape).length === 0 ? schema : schema.clone({ ...schema.def, shape, catchall: z.never() })
  }
  if (schema instanceof z.ZodArray) return schema.clone({ ...schema.def, element: inner(schema.def.element) })
  if (schema instanceof z.ZodUnion) return schema.clone({ ...schema.def, options: schema.def.options.map(inner) })
  if (schema instanceof z.ZodRecord) return schema.clone({ ...schema.def, valueType: inner(schema.def.valueType) })
  if (schema instanceof z.ZodPipe) return schema.clone({ ...schema.def, in: inner(schema.def.in), out: inner(schema.def.out) })
  if (
    schema instanceof z.ZodOptional ||
    schema instanceof z.ZodNullable ||
    schema instanceof z.ZodDefault ||
    schema instanceof z.ZodReadonly
  ) {
    return (schema as z.ZodOptional).clone({ ...(schema as z.ZodOptional).def, innerType: inner(schema.def.innerType) })
  }
  return schema
}
