/** Whether a decoded value holds lists or records in one another beyond so many. */
export function isTooDeep(value: unknown, left: number): boolean {
  if (typeof value !== 'object' || value === null || value instanceof Uint8Array) return false
  if (left === 0) return true
  if (Array.isArray(value)) return value.some((item) => isTooDeep(item, left - 1))
  for (const key in value) {
    if (isTooDeep((value as Record<string, unknown>)[key], left - 1)) return true
  }
  return false
}
