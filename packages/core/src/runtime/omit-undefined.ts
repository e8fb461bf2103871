/** Fields that may be undefined, as fields that may be absent. */
export type WithoutUndefined<T> = { [K in keyof T]?: Exclude<T[K], undefined> }

/** Only the fields that have a value: `exactOptionalPropertyTypes` and canonical JSON tell absent from undefined. */
export function omitUndefined<T extends object>(fields: T): WithoutUndefined<T> {
  const found: WithoutUndefined<T> = {}
  for (const name in fields) if (fields[name] !== undefined) found[name] = fields[name] as Exclude<T[typeof name], undefined>
  return found
}
