/** Fields that may be undefined, as fields that may be absent. */
export type Present<T> = { [K in keyof T]?: Exclude<T[K], undefined> }

/** Only the fields that have a value: `exactOptionalPropertyTypes` and canonical JSON tell absent from undefined. */
export function present<T extends object>(fields: T): Present<T> {
  const found: Present<T> = {}
  for (const name in fields) if (fields[name] !== undefined) found[name] = fields[name] as Exclude<T[typeof name], undefined>
  return found
}
