/** Type with the same fields, optional instead of possibly undefined. */
export type WithoutUndefined<T> = { [K in keyof T]?: Exclude<T[K], undefined> }

/** Returns only the fields that have a value, because `exactOptionalPropertyTypes` and canonical JSON distinguish absent from undefined. */
export function omitUndefined<T extends object>(fields: T): WithoutUndefined<T> {
  const found: WithoutUndefined<T> = {}
  for (const name in fields) if (fields[name] !== undefined) found[name] = fields[name] as Exclude<T[typeof name], undefined>
  return found
}
